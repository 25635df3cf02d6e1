/* editor.js - editing: each passage is a field; Enter splits it, Backspace at its beginning joins it to the one before.
 *
 * The entry's list of segments is replaced with each edit, never changed in place, so that an old list is all that undo
 * needs. What the model said stays in entry.original. */
import * as entries from './entries.js';
import { announce, ask, byId } from './ui.js';
import { clock } from './formats.js';
import { cut, joined, retold } from './words.js';

const MOST_UNDO = 200;
let reader = null;              // reader.js; given to start(), since it imports this file
let on = false;
let history = [];
let typing = null;              // the field whose typing is one step of undo

export const isOn = () => on;

export function start(view) {
  reader = view;
  byId('edit').addEventListener('click', toggle);
  byId('undo').addEventListener('click', undo);
  byId('revert').addEventListener('click', revert);
  byId('segments').addEventListener('input', (event) => typed(event.target));
  byId('segments').addEventListener('keydown', pressed);
  byId('segments').addEventListener('focusout', () => { typing = null; });
}

export function toggle() {
  if (on) return leave();
  if (!reader.entry() || byId('tools').hidden) return undefined;
  on = true;
  history = [];
  show();
  reader.sync();
  const first = reader.rowsNow().find(({ item }) => item.getBoundingClientRect().bottom > 0);
  if (first) first.field.focus({ preventScroll: true });
  return undefined;
}

export function leave() {
  if (!on) return;
  on = false;
  typing = null;
  show();
  reader.sync();
  byId('edit').focus({ preventScroll: true });
}

function show() {
  byId('edit').setAttribute('aria-pressed', String(on));
  byId('edit').textContent = on ? 'Done' : 'Edit';
  byId('edit-help').hidden = !on;
  byId('again').hidden = on;
  byId('undo').hidden = !on;
  byId('undo').disabled = !history.length;
  const entry = reader.entry();
  byId('revert').hidden = !on || !entry || !entry.original || entry.segments === entry.original;
}

/* A field as high as its text: by CSS where the browser can (field-sizing), else by measuring. */
export function makeField(segment) {
  const field = document.createElement('textarea');
  field.className = 'words';
  field.rows = 1;
  field.dir = 'auto';
  field.value = segment.text.trim();
  field.setAttribute('aria-label', `Text from ${clock(segment.start)} to ${clock(segment.end)}`);
  field.addEventListener('focus', () => field.closest('.segment').classList.add('editing'));
  field.addEventListener('blur', () => field.closest('.segment')?.classList.remove('editing'));
  requestAnimationFrame(() => fit(field));
  return field;
}

function fit(field) {
  if (CSS.supports('field-sizing', 'content')) return;
  field.style.height = 'auto';
  field.style.height = `${field.scrollHeight}px`;
}

const rowOf = (field) => reader.rowsNow().findIndex((row) => row.field === field);

function remember() {
  history.push(reader.entry().segments);
  if (history.length > MOST_UNDO) history.shift();
}

/* Another list of segments; the row that is being typed in must not be made again. */
function replace(segments, typedRow) {
  if (typedRow !== undefined) reader.rowsNow()[typedRow].segment = segments[typedRow];
  entries.update(reader.entry(), { segments });
  show();
}

function typed(field) {
  const i = rowOf(field), entry = reader.entry();
  if (i < 0) return;
  fit(field);
  const segment = retold(entry.segments[i], field.value);
  if (segment === entry.segments[i]) return;
  if (typing !== field) remember();
  typing = field;
  replace(entry.segments.map((old, k) => k === i ? segment : old), i);
}

function focusAt(i, letter) {
  const { field } = reader.rowsNow()[i];
  field.focus();
  field.setSelectionRange(letter, letter);
}

function split(i, field) {
  const { segments } = reader.entry();
  const blanks = field.value.length - field.value.trimStart().length;
  const parts = cut(segments[i], field.selectionStart - blanks);
  if (!parts) return;
  remember();
  replace([...segments.slice(0, i), ...parts, ...segments.slice(i + 1)]);
  focusAt(i + 1, 0);
  announce('Split.');
}

function join(i) {
  const { segments } = reader.entry();
  const letter = segments[i - 1].text.trim().length;
  remember();
  replace([...segments.slice(0, i - 1), joined(segments[i - 1], segments[i]), ...segments.slice(i + 1)]);
  focusAt(i - 1, letter);
  announce('Joined.');
}

export function undo() {
  if (!history.length) return;
  typing = null;
  const segments = history.pop();
  replace(segments);
  announce('Undone.');
}

async function revert() {
  const entry = reader.entry();
  if (!await ask('Discard every edit of this text?', 'Discard')) return;
  remember();
  replace(entry.original);
}

function pressed(event) {
  const field = event.target, i = rowOf(field);
  if (i < 0 || event.isComposing) return;
  const start = field.selectionStart, bare = start === field.selectionEnd;
  if (event.key === 'Enter') {
    event.preventDefault();
    if (bare) split(i, field);
  } else if (event.key === 'Backspace' && bare && start === 0 && i > 0) {
    event.preventDefault();
    join(i);
  } else if (event.key === 'Escape') {
    leave();
  } else if (event.key.toLowerCase() === 'z' && (event.ctrlKey || event.metaKey) && typing !== field) {
    event.preventDefault();
    undo();
  } else if ((event.key === 'ArrowUp' && start === 0 && i > 0) ||
             (event.key === 'ArrowDown' && start === field.value.length && i + 1 < reader.rowsNow().length)) {
    event.preventDefault();
    focusAt(event.key === 'ArrowUp' ? i - 1 : i + 1, 0);
  }
}
