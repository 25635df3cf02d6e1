/* entries.js - what the page knows: one entry for each file or recording, with its state, text and options.
 *
 * An entry: {id, name, kind: 'file' | 'recording', created, bytes, options, state, error, segments, original, task,
 * language, duration, model}. state: waiting, uploading, queued, running, busy, done, failed, cancelled, recording,
 * finishing. Changes go through update(), which tells everybody who watches and saves twice a second at most. */
import * as store from './store.js';

const all = new Map();
const owned = new Map();        // id → function that gives up the lock
const LOCK = 'max-whisper-';
const watchers = [];
const unsaved = new Map();      // id → timer
const SAVE_MS = 500;
const LEFT = 'max-whisper-left';   // in localStorage: what was not saved yet when the page was left
/* What a reload cannot continue, and what becomes of it */
const INTERRUPTED = { uploading: 'waiting', queued: 'waiting', running: 'waiting', busy: 'waiting' };

export const get = (id) => all.get(id) || null;
let turns = Date.now();
/* A number greater than all before it, also than those of earlier visits: the order in which jobs run */
export const turn = () => ++turns;
export const list = () => [...all.values()].sort((a, b) => b.created - a.created);
export const watch = (watcher) => watchers.push(watcher);
export const isActive = (entry) => !['done', 'failed', 'cancelled'].includes(entry.state);

const tell = (entry, fields) => watchers.forEach((watcher) => watcher(entry, fields));

async function save(entry) {
  clearTimeout(unsaved.get(entry.id));
  unsaved.delete(entry.id);
  if (all.has(entry.id)) await store.putEntry(entry).catch(() => {});   // no room: the page goes on without
}

export function saveAll() {
  for (const id of [...unsaved.keys()]) if (all.has(id)) save(all.get(id));
}

/* The page is being left: the database may not get to it any more, localStorage does at once. */
export function leave() {
  const late = [...unsaved.keys()].map(get).filter(Boolean);
  try {
    if (late.length) localStorage.setItem(LEFT, JSON.stringify(late));
  } catch { /* too much: what the database has must do */ }
  saveAll();
}

function left() {
  try {
    return JSON.parse(localStorage.getItem(LEFT) || '[]');
  } catch {
    return [];
  } finally {
    localStorage.removeItem(LEFT);
  }
}

/* What a tab works on is locked, so that another one that is opened does not take it for interrupted. */
function own(entry) {
  if (owned.has(entry.id) || !navigator.locks) return;
  let release;
  const done = new Promise((resolve) => { release = resolve; });
  owned.set(entry.id, release);
  navigator.locks.request(LOCK + entry.id, () => done);
}

/* The lock goes once the database has how the work ended: what it still calls running would be taken too. */
async function disown(entry, stored) {
  const release = owned.get(entry.id);
  owned.delete(entry.id);
  try {
    await stored;
  } finally {
    release?.();
  }
}

/* The ids that other tabs work on. A page that was just left may take a moment to let go. */
async function ownedElsewhere() {
  if (!navigator.locks) return new Set();
  const held = async () => (await navigator.locks.query()).held.map((lock) => lock.name.slice(LOCK.length));
  if (!(await held()).length) return new Set();
  await new Promise((resolve) => setTimeout(resolve, 500));
  return new Set(await held());
}

export function update(entry, fields) {
  Object.assign(entry, fields);
  if (!all.has(entry.id)) return;
  if (isActive(entry)) own(entry);
  else if (owned.has(entry.id)) disown(entry, save(entry));
  if (!unsaved.has(entry.id)) unsaved.set(entry.id, setTimeout(() => save(entry), SAVE_MS));
  tell(entry, fields);
}

export function add(fields) {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  const id = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const entry = { id, created: Date.now(), state: 'waiting', segments: [], error: null, ...fields };
  all.set(id, entry);
  if (isActive(entry)) own(entry);
  save(entry);
  tell(entry, entry);
  return entry;
}

export async function remove(entry) {
  all.delete(entry.id);
  clearTimeout(unsaved.get(entry.id));
  unsaved.delete(entry.id);
  await disown(entry, store.remove(entry.id));
  tell(entry, null);
}

export async function load() {
  const late = new Map(left().map((entry) => [entry.id, entry])), others = await ownedElsewhere();
  for (const stored of await store.entries()) {
    if (others.has(stored.id)) continue;
    const entry = late.get(stored.id) || stored;
    if (INTERRUPTED[entry.state]) Object.assign(entry, { state: INTERRUPTED[entry.state], segments: [] });
    if (entry.state === 'waiting' && !entry.turn) entry.turn = entry.created;
    all.set(entry.id, entry);
    if (late.has(entry.id)) save(entry);
    tell(entry, entry);
  }
}
