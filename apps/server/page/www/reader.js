/* reader.js - the text of one entry: passages with their times, words that light up while the sound plays and jump
 * when they are clicked, and the same passages as fields while they are edited (editor.js). */
import * as editor from './editor.js';
import * as entries from './entries.js';
import * as player from './player.js';
import * as settings from './settings.js';
import { LANGUAGES } from './languages.js';
import { statusOf } from './list.js';
import { byId, make, say } from './ui.js';
import { clock } from './formats.js';
import { indexAt } from './words.js';

const END_MARGIN = 100;         // pixels under the last line; on small screens the record button lies there
const LINGER_S = 0.3;           // how long a word stays lit after its end
let shown = null;
let rows = [];                  // {segment, item, field} in the order of the segments
let words = null;               // {starts, ends, spans} of all rows, made when it is first needed
let lit = null;
let cursor = null;              // the element that the keyboard is at

export const entry = () => shown;
export const list = () => byId('segments');
export const rowsNow = () => rows;

export function start() {
  player.start(light);
  list().addEventListener('click', clicked);
  list().addEventListener('keydown', moved);
  entries.watch((changed, fields) => {
    if (changed !== shown) return;
    if (fields === null) show(null);
    else refresh(fields);
  });
}

export function show(next) {
  editor.leave();
  shown = next;
  byId('welcome').hidden = Boolean(next);
  byId('document').hidden = !next;
  list().replaceChildren();
  rows = [];
  words = lit = cursor = null;
  partial('', '');
  if (!next) return player.load('');
  refresh(next);
}

/* What is being said, under the text: words that are certain, then words that may still change */
export function partial(said, maybe = '') {
  byId('partial').hidden = !said && !maybe;
  say(byId('partial-said'), said);
  say(byId('partial-maybe'), said && maybe ? ` ${maybe}` : maybe);
  if (shown && shown.state === 'recording') say(byId('waiting'), waitingText(true, shown.segments.length > 0));
}

/* What is being said stays in sight, unless the reader has scrolled away from it. */
export function keepEndInSight() {
  const below = byId('waiting').getBoundingClientRect().bottom - innerHeight + END_MARGIN;
  if (settings.get('follow') && below > 0 && below < innerHeight) scrollBy({ top: below, behavior: 'auto' });
}

function refresh(fields) {
  const busy = entries.isActive(shown), has = shown.segments.some((segment) => segment.text.trim());
  say(byId('title'), shown.name);
  say(byId('details'), detailsOf(shown));
  byId('tools').hidden = busy || (!has && shown.state !== 'done');
  for (const button of byId('tools').querySelectorAll('#edit, #copy, [data-format]')) button.hidden = !has;
  byId('waiting').hidden = !busy && (has || shown.state === 'failed');
  say(byId('waiting'), waitingText(busy, has));
  showError(shown.error);
  if (fields.segments) sync();
  if (!['recording', 'finishing'].includes(shown.state)) player.load(shown.id);
  else player.load('');
}

function waitingText(busy, has) {
  if (shown.state === 'recording')
    return has || !byId('partial').hidden ? 'Recording' : 'Recording. The text appears here while you speak.';
  if (busy) return statusOf(shown);
  return shown.state === 'done' ? 'No speech was found.' : 'Cancelled.';
}

function detailsOf({ created, language, model, task, state }) {
  const when = new Date(created).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  const tongue = language && language.charAt(0).toUpperCase() + language.slice(1);
  return [when, state === 'done' && tongue, state === 'done' && task === 'translate' && 'translated to English', model]
    .filter(Boolean).join(' · ');
}

function showError(error) {
  byId('doc-error').hidden = !error;
  say(byId('doc-error'), error ? error.message : '');
}

/* The rows of the entry's segments; a row whose segment is the same object stays as it is. */
export function sync() {
  const { segments } = shown;
  const code = (LANGUAGES.find(([, name]) => name.toLowerCase() === (shown.language || '').toLowerCase()) || [''])[0];
  list().lang = shown.task === 'translate' ? 'en' : code;
  const old = new Map(rows.map((row) => [row.segment, row]));
  const usable = (row) => row && Boolean(row.field) === editor.isOn();
  rows = segments.map((segment) => usable(old.get(segment)) ? old.get(segment) : makeRow(segment));
  const wanted = new Set(rows.map((row) => row.item));
  for (const item of [...list().children]) if (!wanted.has(item)) item.remove();
  let at = list().firstElementChild;
  for (const { item } of rows) {
    if (at === item) at = at.nextElementSibling;
    else list().insertBefore(item, at);
  }
  words = null;
  if (!list().querySelector('.stamp[tabindex="0"]') && rows.length) setCursor(rows[0].item.querySelector('.stamp'));
  light(player.time());
}

function makeRow(segment) {
  const stamp = make('button', { type: 'button', class: 'stamp', tabindex: '-1',
    'aria-label': `Play from ${clock(segment.start)}` }, clock(segment.start));
  const field = editor.isOn() ? editor.makeField(segment) : null;
  const words = field ? [] : segment.words.flatMap((word) => makeWord(word, segment));
  const text = field || make('p', { class: 'words', dir: 'auto' }, ...words);
  const item = make('li', { class: 'segment' }, stamp, text);
  item.hidden = !field && !segment.text.trim();
  return { segment, item, field };
}

/* The blanks before a word are no part of what lights up. A word that the guard marked (with --guard mark) says why. */
function makeWord(word, segment) {
  const bare = word.word.trimStart(), span = make('span', { class: 'word' }, bare);
  const reasons = word.suspicion_reasons || (!segment.edited && segment.suspicion_reasons) || [];
  if (reasons.length) {
    span.classList.add('suspect');
    span.title = `Perhaps never spoken: ${reasons.join(', ')}`;
  }
  return [word.word.slice(0, word.word.length - bare.length), span];
}

/* ---- playing ---------------------------------------------------------------------------------------------------- */

function collect() {
  words = { starts: [], ends: [], spans: [] };
  for (const { segment, item, field } of rows) {
    const spans = field ? [] : item.querySelectorAll('.word');
    const parts = field ? [segment] : segment.words;
    parts.forEach((part, i) => {
      words.starts.push(part.start);
      words.ends.push(part.end);
      words.spans.push(field ? item : spans[i]);
    });
  }
}

function light(time) {
  const active = shown && player.isLoaded() && (time > 0 || player.isPlaying());
  if (!active && !lit) return;
  if (!words) collect();
  const i = active ? indexAt(words.starts, time) : -1;
  const next = i >= 0 && time <= words.ends[i] + LINGER_S ? words.spans[i] : null;
  if (next === lit) return;
  if (lit) lit.classList.remove('lit');
  const before = lit && lit.closest('.segment'), now = next && next.closest('.segment');
  if (next) next.classList.add('lit');
  if (now && before !== now) {
    for (const old of list().querySelectorAll('.current')) old.classList.remove('current');
    now.classList.add('current');
  }
  if (now && settings.get('follow') && player.isPlaying() && !editor.isOn()) keepInSight(next);
  lit = next;
}

/* Scrolls only if the word is about to leave the window, so that reading is not disturbed. */
function keepInSight(element) {
  const box = element.getBoundingClientRect(), top = byId('player').getBoundingClientRect().bottom;
  if (box.top < top + 10 || box.bottom > innerHeight - 60)
    element.closest('.segment').scrollIntoView({ block: 'center', behavior: calm() ? 'auto' : 'smooth' });
}

const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/* ---- jumping ---------------------------------------------------------------------------------------------------- */

/* The time that an element of the text stands for */
function timeOf(element) {
  const row = rows.find(({ item }) => item.contains(element));
  if (!row) return null;
  if (!element.classList.contains('word')) return row.segment.start;
  return row.segment.words[[...row.item.querySelectorAll('.word')].indexOf(element)].start;
}

function clicked(event) {
  const target = event.target.closest('.word, .stamp');
  if (!target || !getSelection().isCollapsed) return;
  setCursor(target, 'mouse');
  player.jump(timeOf(target), true);
}

function setCursor(element, focus) {
  if (cursor && cursor.isConnected) cursor.tabIndex = -1;
  cursor = element;
  if (!cursor) return;
  cursor.tabIndex = 0;
  if (focus) cursor.focus({ preventScroll: focus === 'mouse' });
}

/* Arrows move through the text: up and down by passages, left and right by words; Enter plays from there. */
function moved(event) {
  const here = event.target.closest('.word, .stamp');
  if (!here || event.ctrlKey || event.altKey || event.metaKey) return;
  const stops = (selector) => [...list().querySelectorAll(`.segment:not([hidden]) ${selector}`)];
  const row = here.closest('.segment');
  let next = null;
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    const stamps = stops('.stamp'), i = stamps.indexOf(row.querySelector('.stamp'));
    next = event.key === 'ArrowDown' ? stamps[i + 1] : here.classList.contains('word') ? stamps[i] : stamps[i - 1];
  } else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
    const all = stops(':is(.stamp, .word)');
    next = all[all.indexOf(here) + (event.key === 'ArrowRight' ? 1 : -1)];
  } else if (event.key === 'Home') next = stops('.stamp')[0];
  else if (event.key === 'End') next = stops('.stamp').pop();
  else if (event.key === 'Enter' && here.classList.contains('word')) player.jump(timeOf(here), true);
  else return;
  event.preventDefault();
  if (next) setCursor(next, true);
}
