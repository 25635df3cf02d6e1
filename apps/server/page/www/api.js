/* api.js - the server's API: models, transcriptions as a stream of events, the key. Every failure is a Failure whose
 * `kind` says what can be done about it and whose message is for people. */

const KEY = 'max-whisper-key';
export const key = () => sessionStorage.getItem(KEY) || '';
export const setKey = (value) => value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY);

/* kind: away (no answer), key (401), busy (429, 503: wait), large (413), refused (other 4xx), broken (5xx, or the
 * stream ended early), cancelled */
export class Failure extends Error {
  constructor(kind, message, wait = 0) {
    super(message);
    this.kind = kind;
    this.wait = wait;   // seconds until it may be tried again
  }
}

const KINDS = { 401: 'key', 413: 'large', 429: 'busy', 503: 'busy' };

/* The failure that an answer stands for: status, body, Retry-After. */
export function failureOf(status, body, retryAfter) {
  let message = '';
  try {
    message = JSON.parse(body).error.message;
  } catch { /* a proxy's page, or nothing: the status has to do */ }
  const kind = KINDS[status] || (status >= 500 ? 'broken' : 'refused');
  const standard = {
    key: key() ? 'The server does not accept this API key.' : 'The server asks for an API key.',
    large: 'The file is larger than the server accepts.',
    busy: 'The server is busy.',
  }[kind];
  if (kind === 'key' && !key()) message = standard;   // it is not wrong, there is none
  message = message || standard || `The server answered with status ${status}.`;
  return new Failure(kind, message, Number(retryAfter) || 0);
}

const away = () => new Failure('away', 'The server does not answer. It may have been stopped, or the network is down.');
const authorization = () => key() ? { Authorization: `Bearer ${key()}` } : {};

async function getJson(path, options = {}) {
  let response;
  try {
    const headers = { ...authorization(), ...options.headers };
    response = await fetch(path, { ...options, headers, cache: 'no-store' });
  } catch {
    throw away();
  }
  if (!response.ok) throw failureOf(response.status, await response.text(), response.headers.get('Retry-After'));
  return response.json();
}

export const models = async () => (await getJson('v1/models')).data;

/* A key that a WebSocket subprotocol cannot carry is exchanged for a short-lived one that it can. */
async function socketKey() {
  if (/^[\w!#$%&'*+.^`|~-]*$/.test(key())) return key();
  const body = JSON.stringify({ session: { type: 'transcription' } });
  const headers = { 'Content-Type': 'application/json' };
  return (await getJson('v1/realtime/client_secrets', { method: 'POST', body, headers })).value;
}

/* An open socket of the realtime API: relative to the page, so that a proxy may put both below a folder. */
export async function realtime() {
  const url = new URL('v1/realtime?intent=transcription', location.href);
  url.protocol = url.protocol.replace('http', 'ws');
  const secret = await socketKey();
  const socket = new WebSocket(url, ['realtime', ...(secret ? [`openai-insecure-api-key.${secret}`] : [])]);
  return new Promise((resolve, reject) => {
    socket.onopen = () => resolve(socket);
    socket.onerror = () => reject(new Failure('away', 'The server did not open a live connection.'));
  });
}

/* Server-sent events: text in pieces of any size in, the data of each whole event out, parsed. */
export function eventParser(take) {
  let rest = '';
  return (text) => {
    rest += text;
    for (let end; (end = rest.search(/\r?\n\r?\n/)) >= 0;) {
      const block = rest.slice(0, end);
      rest = rest.slice(end).replace(/^\r?\n\r?\n/, '');
      const data = block.split(/\r?\n/).filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5).trimStart());
      if (data.length && data[0] !== '[DONE]') take(JSON.parse(data.join('\n')));
    }
  };
}

/* The form of a request: options as the settings have them, empty ones left to the server. */
export function formOf(file, name, options) {
  const form = new FormData();
  const add = (field, value) => value !== '' && value !== undefined && value !== false && form.append(field, value);
  add('model', options.model || 'whisper-1');
  add('response_format', 'verbose_json');
  add('stream', 'true');
  add('stream_events', 'all');
  form.append('timestamp_granularities[]', 'word');
  form.append('timestamp_granularities[]', 'segment');
  for (const field of ['language', 'prompt', 'temperature', 'beam_size', 'guard']) add(field, options[field]);
  add('vad', options.vad ? 'true' : '');
  form.append('file', file, name);
  return form;
}

/* Sends a file; calls on.uploaded(fraction), on.queued(position), on.progress(done_s, total_s, stage),
 * on.segment(segment); resolves to the whole result. An aborted signal ends the request, and the server's work.
 * XMLHttpRequest, because fetch does not tell how much of a request has been sent. */
export function transcribe(file, name, options, on, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    let result = null, failure = null, seen = 0, sent = false;
    const feed = eventParser((event) => {
      if (event.error) failure = new Failure('broken', event.error.message || 'The server failed.');
      else if (event.type === 'max_whisper.queued') on.queued(event.position);
      else if (event.type === 'max_whisper.progress') on.progress(event.done_s, event.total_s, event.stage);
      else if (event.type === 'max_whisper.segment') on.segment(event.segment);
      else if (event.type === 'max_whisper.result') result = event.result;
    });
    const read = () => {
      if (request.status !== 200) return;
      const text = request.responseText.slice(seen);
      seen += text.length;
      feed(text);
    };
    const settle = () => {
      try {
        read();
      } catch {
        failure = new Failure('broken', 'The server sent something that is not an event.');
      }
      if (request.status !== 200)
        reject(failureOf(request.status, request.responseText, request.getResponseHeader('Retry-After')));
      else if (failure) reject(failure);
      else if (!result) reject(new Failure('broken', 'The connection ended before the text was complete.'));
      else resolve(result);
    };
    request.open('POST', options.task === 'translate' ? 'v1/audio/translations' : 'v1/audio/transcriptions');
    for (const [header, value] of Object.entries(authorization())) request.setRequestHeader(header, value);
    request.upload.onprogress = (event) => event.lengthComputable && on.uploaded(event.loaded / event.total);
    request.upload.onload = () => { sent = true; on.uploaded(1); };
    request.onprogress = () => { try { read(); } catch { /* told when the request ends */ } };
    request.onload = settle;
    request.onerror = () => reject(seen ? new Failure('broken', 'The connection broke before the text was complete.')
      : sent ? away() : new Failure('away', 'The connection broke while the file was being sent.'));
    request.onabort = () => reject(new Failure('cancelled', 'Cancelled.'));
    signal.addEventListener('abort', () => request.abort());
    request.send(formOf(file, name, options));
  });
}
