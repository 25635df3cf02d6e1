/* microphone.js - the record button, its meter and clock, and the entry that a recording becomes. */
import * as entries from './entries.js';
import * as jobs from './jobs.js';
import * as live from './live.js';
import * as reader from './reader.js';
import * as settings from './settings.js';
import * as store from './store.js';
import { LANGUAGES } from './languages.js';
import { announce, byId, make, notify, say } from './ui.js';
import { clock } from './formats.js';

let recording = null;           // live.Recording while there is one
let entry = null;
let busy = false;               // between the click and the first or last sample
let select = () => {};

export function start(selectEntry) {
  select = selectEntry;
  const why = live.obstacle();
  byId('record').setAttribute('aria-disabled', String(Boolean(why)));
  note(why);
  byId('record').addEventListener('click', toggle);
  if (!why) showMicrophones();
}

function note(text) {
  byId('record-note').hidden = !text;
  say(byId('record-note'), text);
}

/* Their names are told only after the microphone was once allowed. */
async function showMicrophones() {
  const devices = await live.microphones().catch(() => []);
  byId('microphone-field').hidden = devices.length < 2;
  byId('microphone').replaceChildren(make('option', { value: '' }, 'Default'),
    ...devices.map((device) => make('option', { value: device.deviceId }, device.label)));
  const wanted = settings.get('microphone');
  byId('microphone').value = devices.some((device) => device.deviceId === wanted) ? wanted : '';
}

export function toggle() {
  if (live.obstacle()) return announce(live.obstacle());
  if (busy) return undefined;
  return recording ? stop() : begin();
}

function nameNow() {
  const now = new Date(), two = (n) => String(n).padStart(2, '0');
  return `Recording ${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())} ` +
    `${two(now.getHours())}.${two(now.getMinutes())}.${two(now.getSeconds())}`;
}

async function begin() {
  busy = true;
  note('');
  const options = settings.options();
  entry = entries.add({ name: nameNow(), kind: 'recording', state: 'recording', options, task: options.task,
    language: '', duration: 0, model: options.model });
  recording = new live.Recording(entry.id, options, { text, level, broken });
  try {
    await recording.start(byId('microphone').value);
  } catch (failure) {
    recording.release();
    recording = null;
    await entries.remove(entry);
    note(failure.message);
    announce(failure.message);
    busy = false;
    return;
  }
  busy = false;
  show();
  select(entry);
  if (byId('reader').getBoundingClientRect().top > innerHeight / 2) byId('reader').scrollIntoView();
  showMicrophones();
  announce('Recording.');
}

async function stop() {
  busy = true;
  const ending = recording;
  recording = null;
  entries.update(entry, { state: 'finishing' });
  show();
  const { sound, seconds, isWhole, language } = await ending.stop();
  entries.update(entry, { language: nameOf(language) });
  await complete(entry, sound, seconds, isWhole);
  busy = false;
  announce('The recording has ended.');
}

/* As the server's answers name it: "english" */
const nameOf = (code) => (LANGUAGES.find(([one]) => one === code) || ['', ''])[1].toLowerCase();

/* What was not all heard live is sent as a file. */
async function complete(which, sound, seconds, isWhole) {
  if (sound) {
    if (!await store.putSound(which.id, sound)) notify('The recording is too large to keep: save it before you leave.');
    await store.dropPieces(which.id);
  }
  if (reader.entry() === which) reader.partial('', '');
  entries.update(which, { state: 'done', bytes: sound ? sound.size : 0, duration: seconds, original: which.segments,
    segments: which.segments });
  if (sound && !isWhole) {
    note('');
    jobs.submit(which);
  }
}

/* Recordings that a reload or a crash cut off: what was stored becomes their sound, unless it had already. */
export async function recover() {
  for (const old of entries.list().filter(({ state }) => ['recording', 'finishing'].includes(state))) {
    const sound = await live.savedSound(old.id) || await store.sound(old.id);
    if (!sound) await entries.remove(old);
    else await complete(old, sound, live.secondsOf(sound), false);
  }
}

/* ---- what a recording tells ------------------------------------------------------------------------------------- */

function text(segments, said, maybe) {
  entries.update(entry, { segments });
  if (reader.entry() !== entry) return;
  reader.partial(said, maybe);
  reader.keepEndInSight();
}

function level(peak, seconds) {
  // 60 dB of range, as sound is heard
  byId('level').value = peak > 0 ? Math.max(0, 1 + Math.log10(peak) / 3) : 0;
  say(byId('record-time'), clock(seconds));
}

function broken(message, ended) {
  note(message);
  announce(message);
  if (ended && recording) stop();
}

function show() {
  const on = Boolean(recording);
  say(byId('record-label'), on ? 'Stop' : 'Record');
  byId('record').classList.toggle('on', on);
  document.body.classList.toggle('recording', on);
  byId('record-time').hidden = !on;
  byId('level').hidden = !on;
  document.title = on ? 'Recording - max-whisper' : 'max-whisper';
}
