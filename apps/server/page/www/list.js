/* list.js - the list of transcripts at the side: what each is, how far it is, and what can be done with it. */
import * as entries from './entries.js';
import { byId, make, say, announce } from './ui.js';
import { clock, size } from './formats.js';

const rows = new Map();         // id → the row's elements
let act = {};                   // select, cancel, retry, remove

/* actions: functions of an entry; select, cancel, retry, remove */
export function start(actions) {
  act = actions;
  entries.watch((entry, fields) => fields === null ? drop(entry) : show(entry, fields));
  setInterval(() => entries.list().filter((entry) => entry.state === 'busy').forEach((entry) => show(entry, {})), 1000);
}

export function select(id) {
  for (const [other, row] of rows) {
    row.open.toggleAttribute('aria-current', other === id);
    row.item.classList.toggle('selected', other === id);
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function statusOf(entry) {
  switch (entry.state) {
    case 'waiting': return 'Waiting';
    case 'uploading': return entry.uploaded < 1 ? `Sending, ${Math.floor(100 * entry.uploaded)} %` : 'Sent';
    case 'queued': return entry.position > 0 ? `In the server’s queue, place ${entry.position}` : 'Starting';
    case 'running': return runningOf(entry);
    case 'busy': return `The server is busy; trying again in ${secondsLeft(entry)} s`;
    case 'recording': return 'Recording';
    case 'finishing': return 'Finishing';
    case 'cancelled': return 'Cancelled';
    case 'failed': return entry.error.message;
    default: return [clock(entry.duration), capital(entry.language), entry.kind === 'file' && size(entry.bytes)]
      .filter(Boolean).join(' · ');
  }
}

/* The sound is read first, which takes a while only if the file is long. */
function runningOf({ done_s, total_s, stage }) {
  const reading = stage === 'audio';
  if (!total_s) return reading ? `Reading the sound, ${clock(done_s)}` : 'Transcribing';
  return `${reading ? 'Reading the sound, ' : ''}${clock(done_s)} of ${clock(total_s)}`;
}

const secondsLeft = (entry) => Math.max(0, Math.ceil((entry.retry_at - Date.now()) / 1000));

/* [value, or null while there is nothing to count] for the bar, undefined without a bar */
function progressOf(entry) {
  if (entry.state === 'uploading') return entry.uploaded < 1 ? entry.uploaded : null;
  if (entry.state === 'running') return entry.total_s ? entry.done_s / entry.total_s : null;
  return ['queued', 'finishing'].includes(entry.state) ? null : undefined;
}

function makeRow(entry) {
  const id = `entry-${entry.id}`;
  const name = make('span', { class: 'name', id: `${id}-name` });
  const status = make('span', { class: 'status', id: `${id}-status` });
  const open = make('button', { type: 'button', class: 'open', 'aria-describedby': status.id,
    onclick: () => act.select(entry) }, name);
  const bar = make('progress', { max: '1', 'aria-labelledby': name.id, hidden: true });
  const button = (label, f) => make('button', { type: 'button', class: 'quiet', hidden: true,
    'aria-describedby': name.id, onclick: () => f(entry) }, label);
  const cancel = button('Cancel', act.cancel), retry = button('Try again', act.retry);
  const remove = button('Delete', act.remove);
  const item = make('li', { class: 'entry' }, open, status, make('div', { class: 'row' }, cancel, retry, remove), bar);
  const row = { item, name, status, open, bar, cancel, retry, remove };
  rows.set(entry.id, row);
  const later = entries.list().find((other) => other.created < entry.created && rows.has(other.id));
  byId('list').insertBefore(item, later ? rows.get(later.id).item : null);
  return row;
}

function show(entry, fields) {
  const row = rows.get(entry.id) || makeRow(entry);
  say(row.name, entry.name);
  row.open.title = entry.name;
  say(row.status, statusOf(entry));
  row.item.dataset.state = entry.state;
  const value = progressOf(entry);
  row.bar.hidden = value === undefined;
  if (value === null) row.bar.removeAttribute('value');
  else if (value !== undefined) row.bar.value = value;
  const active = entries.isActive(entry), made = ['recording', 'finishing'].includes(entry.state);
  row.cancel.hidden = !active || made;
  row.retry.hidden = !['failed', 'cancelled', 'busy'].includes(entry.state);
  say(row.retry, entry.state === 'busy' ? 'Try now' : 'Try again');
  row.remove.hidden = active;
  byId('list-empty').hidden = true;
  if (fields.state === 'done') announce(`${entry.name}: the text is complete.`);
  if (fields.state === 'failed') announce(`${entry.name}: ${entry.error.message}`);
}

function drop(entry) {
  const row = rows.get(entry.id);
  if (!row) return;
  const next = row.item.nextElementSibling || row.item.previousElementSibling;
  const focused = row.item.contains(document.activeElement);
  row.item.remove();
  rows.delete(entry.id);
  byId('list-empty').hidden = rows.size > 0;
  if (focused) (next ? next.querySelector('.open') : byId('choose')).focus();
}
