/* app.js - puts the page together: files in, the microphone, the list, the text, the keyboard, the server's state. */
import * as api from './api.js';
import * as editor from './editor.js';
import * as entries from './entries.js';
import * as jobs from './jobs.js';
import * as list from './list.js';
import * as microphone from './microphone.js';
import * as player from './player.js';
import * as reader from './reader.js';
import * as settings from './settings.js';
import * as store from './store.js';
import { announce, ask, byId, copy, download, notify, say } from './ui.js';
import { running, size, write } from './formats.js';

const RETRY_MS = 3000;

/* ---- files in --------------------------------------------------------------------------------------------------- */

async function addFiles(files) {
  let first = null;
  const now = Date.now();
  for (const [i, file] of files.entries()) {
    if (!file.size) {
      notify(`${file.name} is empty, or a folder.`);
      continue;
    }
    const entry = entries.add({ name: file.name, kind: 'file', bytes: file.size, options: settings.options(),
      state: 'waiting', created: now - i });   // the first of several comes first in the list
    first = first || entry;
    if (!await store.putSound(entry.id, file))
      notify(`${file.name} is too large to keep in this browser: its sound is lost when you leave the page.`);
    jobs.submit(entry);
  }
  if (first) select(first);
  showUsed();
}

function startFiles() {
  byId('choose').addEventListener('click', () => byId('files').click());
  byId('files').addEventListener('change', (event) => {
    addFiles([...event.target.files]);
    event.target.value = '';
  });
  let depth = 0;      // dragenter and dragleave come for every element on the way
  const veil = (change) => {
    depth = change ? Math.max(0, depth + change) : 0;
    byId('drop-veil').hidden = !depth;
  };
  const hasFiles = (event) => [...event.dataTransfer.types].includes('Files');
  addEventListener('dragenter', (event) => hasFiles(event) && veil(1));
  addEventListener('dragleave', (event) => hasFiles(event) && veil(-1));
  addEventListener('dragover', (event) => event.preventDefault());
  addEventListener('drop', (event) => {
    event.preventDefault();
    veil(0);
    addFiles([...event.dataTransfer.files]);
  });
  addEventListener('paste', (event) => {
    if (event.clipboardData.files.length) addFiles([...event.clipboardData.files]);
  });
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

function select(entry) {
  settings.set('selected', entry ? entry.id : '');
  list.select(entry ? entry.id : '');
  if (reader.entry() !== entry) reader.show(entry);
}

function selectByHand(entry) {
  select(entry);
  const box = byId('reader').getBoundingClientRect();
  if (box.top > innerHeight / 2) byId('reader').scrollIntoView();   // below the list on small screens
}

async function remove(entry) {
  if (entry.state === 'done' && !await ask(`Delete the text and the sound of ${entry.name}?`, 'Delete')) return;
  await entries.remove(entry);
  if (settings.get('selected') === entry.id) select(entries.list()[0] || null);
  announce(`${entry.name} is deleted.`);
  showUsed();
}

async function removeAll() {
  const question = 'Delete every text, sound and setting that this page keeps in this browser?';
  if (!await ask(question, 'Delete everything')) return;
  for (const entry of entries.list().filter(entries.isActive)) jobs.cancel(entry);
  for (const entry of entries.list()) await entries.remove(entry);
  await store.clear();
  localStorage.clear();
  api.setKey('');
  location.reload();
}

async function showUsed() {
  const has = entries.list().length > 0;
  byId('delete-all').hidden = !has;
  const used = has && settings.get('keep') ? await store.used() : 0;
  say(byId('used'), used ? `${size(used)} used.` : '');
}

function again(entry) {
  entries.update(entry, { options: settings.options() });
  jobs.submit(entry);
}

/* ---- the text --------------------------------------------------------------------------------------------------- */

const fileName = (entry, extension) => `${entry.name.replace(/\.[^.]{1,5}$/, '')}.${extension}`;

function startTools() {
  byId('copy').addEventListener('click', async () => {
    const worked = await copy(running(reader.entry().segments));
    say(byId('copy'), worked ? 'Copied' : 'Not copied');
    announce(worked ? 'The text is in the clipboard.' : 'The browser refused the clipboard.');
    setTimeout(() => say(byId('copy'), 'Copy text'), 2000);
  });
  for (const button of document.querySelectorAll('[data-format]'))
    button.addEventListener('click', () => {
      const { format } = button.dataset, [text, type] = write(reader.entry(), format);
      download(fileName(reader.entry(), format), text, type);
    });
  byId('download-sound').addEventListener('click', async () => {
    const entry = reader.entry(), sound = await store.sound(entry.id);
    download(entry.kind === 'recording' ? fileName(entry, 'wav') : entry.name, sound, sound.type);
  });
  byId('again').addEventListener('click', async () => {
    const entry = reader.entry(), edited = entry.original && entry.segments !== entry.original;
    if (edited && !await ask('The new text replaces this one and its edits.', 'Transcribe again')) return;
    again(entry);
  });
}

/* ---- the server ------------------------------------------------------------------------------------------------- */

let asking = false;

async function askForKey(why) {
  if (asking) return;
  asking = true;
  const dialog = byId('key-dialog');
  byId('key-button').hidden = false;
  say(byId('key-why'), `${why} The key is kept until this tab is closed.`);
  byId('key').value = '';
  dialog.returnValue = '';
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener('close', resolve, { once: true }));
  asking = false;
  if (dialog.returnValue === 'ok') {
    api.setKey(byId('key').value.trim());
    connect();
  }
}

/* Asks for the models until the server answers; then the queue goes on. */
async function connect() {
  try {
    settings.setModels(await api.models());
    say(byId('server-state'), '');
    notify('');
    jobs.resume();
  } catch (failure) {
    if (failure.kind === 'key') {
      say(byId('server-state'), 'API key needed');
      notify(failure.message, [['Enter the key', () => askForKey(failure.message)]]);
      askForKey(failure.message);
    } else {
      say(byId('server-state'), 'No connection');
      notify(`${failure.message} Trying again…`, [['Try now', connect]]);
      setTimeout(connect, RETRY_MS);
    }
  }
}

/* ---- the keyboard ----------------------------------------------------------------------------------------------- */

const SHORTCUTS = {
  ' ': player.toggle, k: player.toggle, j: () => player.step(-5), l: () => player.step(5), e: editor.toggle,
  r: microphone.toggle, o: () => byId('choose').click(), '?': () => byId('keys-button').click(),
};

function shortcut(event) {
  if (document.querySelector('dialog[open]')) return;
  if (event.key === ' ' && event.ctrlKey) {
    event.preventDefault();
    player.toggle();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target } = event;
  if (target.closest('input, textarea, select, audio')) return;
  if (event.key === ' ' && target.closest('button, summary')) return;
  const act = SHORTCUTS[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

async function changedSetting(name) {
  if (name === 'speed') player.setSpeed();
  if (name !== 'keep') return;
  entries.saveAll();
  await store.keep(settings.get('keep'));
  showUsed();
}

async function start() {
  settings.start(changedSetting);
  list.start({ select: selectByHand, cancel: jobs.cancel, retry: again, remove });
  reader.start();
  editor.start(reader);
  startFiles();
  startTools();
  microphone.start(select);
  jobs.start(connect);
  entries.watch((_, fields) => { if (!fields || fields.state === 'done') showUsed(); });
  addEventListener('keydown', shortcut);
  addEventListener('pagehide', () => settings.get('keep') && entries.leave());
  byId('delete-all').addEventListener('click', removeAll);
  byId('key-button').addEventListener('click', () => askForKey('Another key can be given.'));
  byId('keys-button').addEventListener('click', () => byId('keys-dialog').showModal());
  if (!await store.open()) byId('keep').disabled = true;
  await store.keep(settings.get('keep'));
  await entries.load();
  await microphone.recover();
  select(entries.get(settings.get('selected')) || entries.list()[0] || null);
  showUsed();
  connect();
}

start();
