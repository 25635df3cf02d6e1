/* jobs.js - files on their way to the server: a few at once, the rest wait their turn; busy servers are asked again.
 *
 * The queue pauses when the server is away or wants a key, and goes on with resume(). */
import * as api from './api.js';
import * as entries from './entries.js';
import * as store from './store.js';
import { segmentsOf } from './words.js';

const AT_ONCE = 3;
const running = new Map();      // id → AbortController
const timers = new Map();       // id → timer of a busy entry
let paused = '';
let onPause = () => {};

/* pause(kind, failure) is called when the queue stops: kind away or key. */
export function start(pause) {
  onPause = pause;
}

export function resume() {
  paused = '';
  pump();
}

const TEXT = ['segments', 'original', 'language', 'duration', 'task', 'model'];

/* A text that is there already is put back if this run comes to nothing. */
export function submit(entry) {
  clearTimeout(timers.get(entry.id));
  const before = entry.before || (entry.original && Object.fromEntries(TEXT.map((field) => [field, entry[field]])));
  entries.update(entry, { state: 'waiting', error: null, uploaded: 0, position: null, done_s: 0, total_s: 0,
    segments: [], original: null, before: before || null, turn: entries.turn() });
  pump();
}

function giveUp(entry, state, error) {
  if (entry.before) entries.update(entry, { ...entry.before, before: null, state: 'done', error });
  else entries.update(entry, { state, error });
}

export function cancel(entry) {
  clearTimeout(timers.get(entry.id));
  if (running.has(entry.id)) running.get(entry.id).abort();
  else giveUp(entry, 'cancelled', null);
}

function pump() {
  const waiting = entries.list().filter((entry) => entry.state === 'waiting' && entry.turn && !running.has(entry.id))
    .sort((a, b) => a.turn - b.turn);
  for (const entry of waiting) {
    if (paused || running.size >= AT_ONCE) return;
    run(entry);
  }
}

async function run(entry) {
  const controller = new AbortController();
  running.set(entry.id, controller);
  try {
    const sound = await store.sound(entry.id);
    if (!sound) throw new api.Failure('refused', 'The sound is no longer in this browser. Choose the file again.');
    const streamed = [];
    const result = await api.transcribe(sound, entry.name, entry.options, eventsOf(entry, streamed), controller.signal);
    finish(entry, result, streamed);
  } catch (failure) {
    await fail(entry, failure instanceof api.Failure ? failure : new api.Failure('broken', String(failure)));
  }
  running.delete(entry.id);
  pump();
}

/* The text that a job shows while it runs is that of this run. */
function eventsOf(entry, streamed) {
  entries.update(entry, { state: 'uploading', uploaded: 0, segments: streamed });
  return {
    uploaded: (fraction) => entries.update(entry, { uploaded: fraction }),
    queued: (position) => entries.update(entry, { state: 'queued', position }),
    progress: (done_s, total_s, stage) => entries.update(entry, { state: 'running', done_s, total_s, stage }),
    segment: (segment) => {
      streamed.push(...segmentsOf({ segments: [segment] }));
      entries.update(entry, { state: 'running', segments: streamed.slice() });
    },
  };
}

function finish(entry, result, streamed) {
  let segments = segmentsOf(result);
  // The words of the stream have probabilities, those of the result only times.
  if (segments.length === streamed.length && segments.every((segment, i) => segment.text === streamed[i].text))
    segments = streamed;
  entries.update(entry, {
    state: 'done', segments, original: segments, language: result.language || '', duration: result.duration || 0,
    task: result.task || entry.options.task, model: result.model || entry.options.model, error: null,
    before: null,
  });
}

async function fail(entry, failure) {
  if (failure.kind === 'cancelled') return giveUp(entry, 'cancelled', null);
  if (failure.kind === 'busy') return wait(entry, failure);
  if (failure.kind === 'away' && await answers())
    failure = new api.Failure('broken', `${failure.message} The server is there: it may have refused the file's size.`);
  if (failure.kind === 'away' || failure.kind === 'key') {
    entries.update(entry, { state: 'waiting', segments: [] });
    if (!paused) {
      paused = failure.kind;
      onPause(failure.kind, failure);
    }
    return undefined;
  }
  return giveUp(entry, 'failed', { kind: failure.kind, message: failure.message });
}

/* Whether the server answers, whatever it says */
async function answers() {
  try {
    await api.models();
    return true;
  } catch (failure) {
    return failure.kind !== 'away';
  }
}

function wait(entry, failure) {
  const seconds = Math.min(120, Math.max(1, failure.wait || 5));
  entries.update(entry, { state: 'busy', segments: [], retry_at: Date.now() + 1000 * seconds });
  timers.set(entry.id, setTimeout(() => submit(entry), 1000 * seconds));
}
