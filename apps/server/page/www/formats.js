/* formats.js - segments as files: txt, srt, vtt, json. What was not edited comes out as the server writes it. */

const two = (number) => String(number).padStart(2, '0');

/* 3661.5 → "01:01:01,500" (srt) or "01:01:01.500"; hours of vtt only if there are any */
function time(seconds, mark, hoursAlways) {
  const ms = Math.round(seconds * 1000), hours = Math.floor(ms / 3600000);
  return (hoursAlways || hours ? two(hours) + ':' : '') + two(Math.floor(ms / 60000) % 60) + ':' +
    two(Math.floor(ms / 1000) % 60) + mark + String(ms % 1000).padStart(3, '0');
}

/* 75.2 → "1:15", 3661 → "1:01:01": for people */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds)), hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return (hours ? hours + ':' + two(minutes) : minutes) + ':' + two(whole % 60);
}

export function size(bytes) {
  const units = ['bytes', 'kB', 'MB', 'GB'];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit++) bytes /= 1000;
  return (unit && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)) + ' ' + units[unit];
}

const spoken = (segments) => segments.filter((segment) => segment.text.trim());

export function plain(segments) {
  return spoken(segments).map((segment) => segment.text.trim() + '\n').join('');
}

/* The text without line breaks between segments */
export function running(segments) {
  return spoken(segments).map((segment) => segment.text).join('').trim();
}

/* Players would take an arrow in the text for the cue's times, and a blank line for its end. */
const cueText = (segment) => segment.text.trim().replace(/-->/g, '->').replace(/\s*\n\s*/g, '\n');

function cue(segment, mark, hoursAlways) {
  const times = [segment.start, segment.end].map((seconds) => time(seconds, mark, hoursAlways));
  return `${times.join(' --> ')}\n${cueText(segment)}\n\n`;
}

export function srt(segments) {
  return spoken(segments).map((segment, i) => `${i + 1}\n${cue(segment, ',', true)}`).join('');
}

export function vtt(segments) {
  return 'WEBVTT\n\n' + spoken(segments).map((segment) => cue(segment, '.', false)).join('');
}

/* Tokens and their probabilities are the model's, so an edited segment has none. */
const MODELS_OWN = ['tokens', 'avg_logprob', 'compression_ratio', 'no_speech_prob', 'temperature', 'seek', 'suspicion',
  'suspicion_reasons'];

function jsonSegment(segment, id) {
  const copy = { id };
  for (const [name, value] of Object.entries(segment))
    if (name !== 'id' && !(segment.edited && MODELS_OWN.includes(name))) copy[name] = value;
  return copy;
}

export function json(entry) {
  const segments = spoken(entry.segments);
  return JSON.stringify({
    task: entry.task, language: entry.language, duration: entry.duration, model: entry.model, file: entry.name,
    edited: segments.some((segment) => segment.edited), text: running(segments), segments: segments.map(jsonSegment),
  }, null, 2) + '\n';
}

/* [text, content type] of an entry in a format */
export function write(entry, format) {
  switch (format) {
    case 'srt': return [srt(entry.segments), 'application/x-subrip'];
    case 'vtt': return [vtt(entry.segments), 'text/vtt'];
    case 'json': return [json(entry), 'application/json'];
    default: return [plain(entry.segments), 'text/plain'];
  }
}
