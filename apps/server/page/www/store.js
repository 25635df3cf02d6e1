/* store.js - what survives a reload: entries (texts) and their sounds in IndexedDB, kept in this browser only.
 *
 * Three tables: entries by id, sounds (Blobs) by id, pieces of a recording that is still being made by [id, number].
 * Where IndexedDB is refused (some private windows), or the user wants nothing kept, everything works from memory. */

const NAME = 'max-whisper', TABLES = ['entries', 'sounds', 'pieces'];
let opened = null;       // the database, if there is one
let database = null;     // the same while things are to be kept, else null: memory
const memory = Object.fromEntries(TABLES.map((table) => [table, new Map()]));

const finished = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/* Whether there is a database */
export async function open() {
  try {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => TABLES.forEach((table) => request.result.createObjectStore(table));
    opened = await finished(request);
    opened.onversionchange = () => opened.close();
  } catch {
    opened = null;
  }
  return opened !== null;
}

/* From now on in the database (true) or in memory only; what there is moves along. */
export async function keep(flag) {
  if (!opened || (database !== null) === flag) return;
  for (const table of TABLES) {
    if (flag) {
      database = opened;
      const values = [...memory[table]];
      memory[table].clear();
      for (const [key, value] of values) await put(table, table === 'pieces' ? pieceKey(key) : key, value);
    } else {
      const store = opened.transaction(table).objectStore(table);
      const [keys, values] = await Promise.all([finished(store.getAllKeys()), finished(store.getAll())]);
      keys.forEach((key, i) => memory[table].set(keyOf(key), values[i]));
    }
  }
  if (flag) return;
  for (const table of TABLES) await change(table, (store) => store.clear());
  database = null;
}

const keyOf = (key) => Array.isArray(key) ? key.join('/') : key;
const pieceKey = (text) => [text.split('/')[0], Number(text.split('/')[1])];

async function change(table, act, fallback) {
  if (!database) return fallback(memory[table]);
  const transaction = database.transaction(table, 'readwrite');
  act(transaction.objectStore(table));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });
}

const put = (table, key, value) =>
  change(table, (store) => store.put(value, key), (map) => { map.set(keyOf(key), value); });

export const putEntry = (entry) => put('entries', entry.id, entry);

/* false if there is no room for it: then it lives in memory until the page is left */
export async function putSound(id, blob) {
  try {
    await put('sounds', id, blob);
    return true;
  } catch {
    memory.sounds.set(id, blob);
    return false;
  }
}

export const putPiece = (id, number, samples) => put('pieces', [id, number], samples);

export async function sound(id) {
  if (memory.sounds.has(id) || !database) return memory.sounds.get(id) || null;
  return await finished(database.transaction('sounds').objectStore('sounds').get(id)) || null;
}

const piecesOf = (id) => IDBKeyRange.bound([id, 0], [id, Infinity]);

/* The pieces of a recording in their order */
export async function pieces(id) {
  if (!database) return [...memory.pieces].filter(([key]) => key.startsWith(id + '/')).map(([, piece]) => piece);
  return finished(database.transaction('pieces').objectStore('pieces').getAll(piecesOf(id)));
}

export const dropPieces = (id) => change('pieces', (store) => store.delete(piecesOf(id)), (map) => {
  for (const key of [...map.keys()]) if (key.startsWith(id + '/')) map.delete(key);
});

export async function entries() {
  if (!database) return [...memory.entries.values()];
  return finished(database.transaction('entries').objectStore('entries').getAll());
}

export async function remove(id) {
  memory.sounds.delete(id);
  for (const table of ['entries', 'sounds'])
    await change(table, (store) => store.delete(id), (map) => { map.delete(id); });
  await dropPieces(id);
}

export async function clear() {
  memory.sounds.clear();
  for (const table of TABLES) await change(table, (store) => store.clear(), (map) => map.clear());
}

/* Bytes that this page's data take, 0 if the browser does not tell */
export async function used() {
  try {
    return (await navigator.storage.estimate()).usage || 0;
  } catch {
    return 0;
  }
}
