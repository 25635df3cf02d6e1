/* live.js - the microphone: sound to the server as it is spoken, text back, and the recording kept in pieces.
 *
 * The recording does not depend on the server: if the live connection breaks, sound is still kept, to be sent as a file
 * afterwards. Times of the text are those of the recording, since both count the same samples. */
import * as api from './api.js';
import * as store from './store.js';
import { base64, wavFile } from './wav.js';
import { divide, segmentsOf } from './words.js';

const RATE = 24000;             // the realtime API's own
const PIECE_S = 5;              // sound is stored in pieces of this length
const LAST_WORDS_MS = 20000;    // how long to wait for the server after the end
const TRANSCRIPTION = 'conversation.item.input_audio_transcription.';

/* Why there is no microphone here, or '' if there may be one */
export function obstacle() {
  if (navigator.mediaDevices && window.AudioWorkletNode) return '';
  if (window.isSecureContext) return 'This browser offers no microphone to pages.';
  return 'Browsers give a page the microphone only over https, or on the server’s own machine as http://localhost. ' +
    `This page came over plain http from ${location.hostname}. Start the server with --tls-cert and --tls-key, or ` +
    `forward the port (ssh -L ${location.port || 80}:localhost:${location.port || 80} ${location.hostname}) and open ` +
    `http://localhost:${location.port || 80}. Files can be transcribed here all the same.`;
}

const REASONS = {
  NotAllowedError: 'The browser was not allowed to use the microphone. Allow it in the address bar, then try again.',
  NotFoundError: 'No microphone was found.',
  NotReadableError: 'The microphone is in use by another program, or the system refuses it.',
  OverconstrainedError: 'The chosen microphone is not there. Choose another one.',
};

export async function microphones() {
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices.filter((device) => device.kind === 'audioinput' && device.deviceId && device.label &&
    device.deviceId !== 'default');
}

async function openMicrophone(deviceId) {
  const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  if (deviceId) audio.deviceId = { exact: deviceId };
  try {
    return await navigator.mediaDevices.getUserMedia({ audio });
  } catch (error) {
    throw new api.Failure('microphone', REASONS[error.name] || `No microphone: ${error.message}`);
  }
}

/* One recording. on: text(segments, said, maybe), level(peak, seconds), broken(message). */
export class Recording {
  constructor(id, options, on) {
    Object.assign(this, { id, options, on });
    this.items = new Map();     // item id → {start, end, said, maybe, done}
    this.nSamples = 0;
    this.piece = [];
    this.nPieces = 0;
    this.early = [];            // sound from before the connection was there
    this.socket = null;
    this.ended = null;          // resolves when the server has said its last word
    this.isWhole = true;        // all of the recording became text
    this.language = '';         // code
  }

  async start(deviceId) {
    this.stream = await openMicrophone(deviceId);
    this.context = new AudioContext();
    await this.context.resume();
    await this.context.audioWorklet.addModule(new URL('worklet.js', import.meta.url));
    this.node = new AudioWorkletNode(this.context, 'capture', { numberOfOutputs: 0, processorOptions: { rate: RATE } });
    this.tail = new Promise((resolve) => {
      this.node.port.onmessage = ({ data }) => {
        this.take(data);
        if (data.last) resolve();
      };
    });
    this.context.createMediaStreamSource(this.stream).connect(this.node);
    this.stream.getTracks()[0].onended = () => this.on.broken('The microphone was disconnected.', true);
    this.lock = await navigator.wakeLock?.request('screen').catch(() => null);
    this.connect();
  }

  /* ---- sound --------------------------------------------------------------------------------------------------- */

  take({ samples, peak }) {
    this.nSamples += samples.length;
    this.piece.push(samples);
    if (this.piece.reduce((sum, part) => sum + part.length, 0) >= PIECE_S * RATE) this.storePiece();
    if (this.socket) this.send({ type: 'input_audio_buffer.append', audio: base64(samples) });
    else if (this.early) this.early.push(samples);
    this.on.level(peak, this.nSamples / RATE);
  }

  storePiece() {
    const joined = new Int16Array(this.piece.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of this.piece) {
      joined.set(part, at);
      at += part.length;
    }
    this.piece = [];
    this.stored = store.putPiece(this.id, this.nPieces++, joined).catch(() =>
      this.on.broken('There is no room left in this browser to keep the recording. Stop, and save what there is.'));
  }

  /* Ends the recording; resolves to {sound, seconds, isWhole, language} when the server has said its last word. */
  async stop() {
    this.node.port.postMessage('stop');
    await this.tail;
    this.release();
    if (this.piece.length) this.storePiece();
    await this.stored;
    const sound = await savedSound(this.id);
    await this.lastWords();
    return { sound, seconds: this.nSamples / RATE, isWhole: this.isWhole, language: this.language };
  }

  release() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.context?.close();
    this.lock?.release();
  }

  /* ---- text ---------------------------------------------------------------------------------------------------- */

  async connect() {
    try {
      const socket = await api.realtime();
      if (this.closing) return socket.close();    // it came too late
      socket.onmessage = ({ data }) => this.receive(JSON.parse(data));
      socket.onclose = () => this.lost();
      socket.send(JSON.stringify({ type: 'session.update', session: this.session() }));
      this.socket = socket;
      for (const samples of this.early) this.send({ type: 'input_audio_buffer.append', audio: base64(samples) });
    } catch (failure) {
      this.lost(failure.message);
    }
    this.early = null;
    return undefined;
  }

  session() {
    const { model, language, prompt, task } = this.options;
    const transcription = { model: model || 'whisper-1' };
    if (language) transcription.language = language;
    if (prompt) transcription.prompt = prompt;
    if (task === 'translate') transcription.task = task;
    const input = { format: { type: 'audio/pcm', rate: RATE }, transcription, turn_detection: { type: 'server_vad' } };
    return { type: 'transcription', audio: { input }, include: ['max_whisper.partials', 'max_whisper.words'] };
  }

  send(event) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(event));
  }

  lost(why) {
    this.socket = null;
    this.ended?.();
    this.isWhole = this.isWhole && this.closing === true;
    if (!this.closing)
      this.on.broken(`${why || 'The live connection ended.'} The recording goes on; its text is made when you stop.`);
  }

  item(id) {
    const fresh = { start: null, end: null, said: '', maybe: '', words: null, done: false };
    if (!this.items.has(id)) this.items.set(id, fresh);
    return this.items.get(id);
  }

  receive(event) {
    const item = event.item_id ? this.item(event.item_id) : null;
    switch (event.type) {
      case 'input_audio_buffer.speech_started': item.start = event.audio_start_ms / 1000; break;
      case 'input_audio_buffer.speech_stopped': item.end = event.audio_end_ms / 1000; break;
      case TRANSCRIPTION + 'delta': Object.assign(item, { said: item.said + event.delta, maybe: '' }); break;
      case 'max_whisper.partial': item.maybe = event.text; break;
      case TRANSCRIPTION + 'completed': this.complete(item, event); break;
      case TRANSCRIPTION + 'failed': this.failedItem(item, event.error); break;
      case 'input_audio_buffer.committed': this.committed = true; break;
      case 'error': this.refused(event.error); break;
      default: return;
    }
    this.tell();
    this.check();
  }

  complete(item, { transcript, words, languages }) {
    if (languages && languages.length) this.language = languages[0].code;
    Object.assign(item, { said: transcript, maybe: '', words: words || null, done: true });
  }

  failedItem(item, error) {
    this.isWhole = false;
    Object.assign(item, { maybe: '', done: true });
    this.on.broken(error && error.message ? error.message : 'A passage could not be transcribed.');
  }

  /* An empty last commit is no failure: there was silence at the end. */
  refused(error) {
    if (this.closing) this.committed = true;
    else this.on.broken(error.message);
  }

  tell() {
    const items = [...this.items.values()].map((item) => ({ ...item, start: item.start ?? 0, own: item }))
      .sort((a, b) => a.start - b.start);
    const segments = items.filter((item) => item.done && item.said.trim()).flatMap((item) => this.segments(item));
    const open = items.filter((item) => !item.done);
    const all = (field) => open.map((item) => item[field].trim()).filter(Boolean).join(' ');
    this.on.text(segments, all('said'), all('maybe'));
  }

  /* Made once, so that rows that are shown stay as they are */
  segments(item) {
    const end = item.end ?? this.nSamples / RATE, text = ' ' + item.said.trim();
    item.own.segments = item.own.segments ||
      divide(segmentsOf({ segments: [{ start: item.start, end, text, words: item.words }] })[0]);
    return item.own.segments;
  }

  /* After the sound has ended: commit what is left and wait for the last text. Of sound that waits for a connection the
   * server has heard nothing. */
  async lastWords() {
    this.closing = true;
    if (this.early) this.isWhole = false;
    this.early = null;
    if (!this.socket) return;
    this.committed = false;     // of earlier passages; now the answer to the last commit counts
    const done = new Promise((resolve) => { this.ended = resolve; });
    this.send({ type: 'input_audio_buffer.commit' });
    const timer = setTimeout(() => {
      this.isWhole = false;
      this.ended();
    }, LAST_WORDS_MS);
    await done;
    clearTimeout(timer);
    this.socket?.close();
    this.socket = null;
  }

  check() {
    if (this.closing && this.committed && [...this.items.values()].every((item) => item.done)) this.ended();
  }
}

/* The pieces of a recording as one file, null if there are none; also of a recording that a reload cut off. */
export async function savedSound(id) {
  const pieces = await store.pieces(id);
  return pieces.length ? wavFile(pieces, RATE) : null;
}

/* Seconds of a file that savedSound made */
export const secondsOf = (sound) => (sound.size - 44) / 2 / RATE;
