/* wav.js - 16-bit mono samples as a WAV file, and as base64. */

/* The 44 bytes before the samples */
export function wavHeader(nSamples, rate) {
  const view = new DataView(new ArrayBuffer(44)), bytes = 2 * nSamples;
  const text = (at, letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, 'RIFF');
  view.setUint32(4, 36 + bytes, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);             // PCM
  view.setUint16(22, 1, true);             // channels
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);      // bytes a second
  view.setUint16(32, 2, true);             // bytes a frame
  view.setUint16(34, 16, true);            // bits a sample
  text(36, 'data');
  view.setUint32(40, bytes, true);
  return view.buffer;
}

/* Chunks of Int16Array → a file that players and the server read */
export function wavFile(chunks, rate) {
  const n = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return new Blob([wavHeader(n, rate), ...chunks], { type: 'audio/wav' });
}

export function base64(samples) {
  const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
  let text = '';
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}
