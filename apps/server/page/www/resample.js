/* resample.js - samples at one rate in, samples at another out, block by block: a windowed sinc, interpolated. */

const WIDTH = 16;        // zero crossings of the sinc on each side
const STEPS = 512;       // table entries from one crossing to the next
const BETA = 9;          // of the Kaiser window: about 90 dB

function bessel(x) {
  let sum = 1, term = 1;
  for (let k = 1; k < 40; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function sincTable() {
  const table = new Float32Array(WIDTH * STEPS + 2);
  for (let i = 0; i <= WIDTH * STEPS; i++) {
    const x = i / STEPS, window = bessel(BETA * Math.sqrt(1 - (x / WIDTH) ** 2)) / bessel(BETA);
    table[i] = (x ? Math.sin(Math.PI * x) / (Math.PI * x) : 1) * window;
  }
  return table;
}

export class Resampler {
  constructor(from, to) {
    this.step = from / to;                          // input samples per output sample
    this.scale = Math.min(1, to / from) * 0.94;     // cut-off below half of the lower rate
    this.reach = Math.ceil(WIDTH / this.scale);     // input samples on each side
    this.table = sincTable();
    this.held = new Float32Array(this.reach);       // silence before the beginning
    this.at = this.reach;                           // where the next output lies in held
  }

  /* Float32Array in, Float32Array out; what lacks its right side waits for the next block */
  feed(block) {
    const input = new Float32Array(this.held.length + block.length);
    input.set(this.held);
    input.set(block, this.held.length);
    const output = new Float32Array(Math.max(0, Math.ceil((input.length - this.reach - this.at) / this.step)));
    let n = 0;
    for (; this.at + this.reach < input.length && n < output.length; this.at += this.step)
      output[n++] = this.sum(input);
    const drop = Math.max(0, Math.floor(this.at) - this.reach);
    this.held = input.slice(drop);
    this.at -= drop;
    return output.subarray(0, n);
  }

  /* The tail, with silence after it */
  finish() {
    return this.feed(new Float32Array(this.reach + 1));
  }

  sum(input) {
    const { at, scale, table, reach } = this;
    const first = Math.ceil(at - reach), last = Math.floor(at + reach);
    let sum = 0;
    for (let i = Math.max(0, first); i <= last; i++) {
      const x = Math.abs(i - at) * scale * STEPS, k = x | 0;
      if (k < WIDTH * STEPS) sum += input[i] * (table[k] + (table[k + 1] - table[k]) * (x - k));
    }
    return sum * scale;
  }
}

/* -1…1 → 16 bits, clipped */
export function toInt16(samples) {
  const out = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i++) {
    const clipped = Math.max(-1, Math.min(1, samples[i]));
    out[i] = Math.round(clipped * 32767);
  }
  return out;
}
