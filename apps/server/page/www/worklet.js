/* worklet.js - the microphone's samples, resampled on the audio thread: posts {samples: Int16Array, peak} every 100 ms.
 *
 * In: processorOptions.rate, the rate wanted; the message "stop". Out: blocks, and after "stop" the tail with
 * {last: true}. The context keeps the rate of its device: Firefox refuses a stream of another rate. */
import { Resampler, toInt16 } from './resample.js';

class Capture extends AudioWorkletProcessor {
  constructor(options) {
    super();
    const { rate } = options.processorOptions;
    this.resampler = new Resampler(sampleRate, rate);   // sampleRate: of this context, a global here
    this.block = Math.round(sampleRate / 10);
    this.waiting = new Float32Array(this.block);
    this.n = 0;
    this.running = true;
    this.port.onmessage = ({ data }) => {
      if (data === 'stop') this.stop();
    };
  }

  stop() {
    if (!this.running) return;
    this.running = false;
    this.send();
    this.post(this.resampler.finish(), 0, true);
  }

  send() {
    const block = this.waiting.subarray(0, this.n);
    let peak = 0;
    for (const sample of block) peak = Math.max(peak, Math.abs(sample));
    this.n = 0;
    this.post(this.resampler.feed(block), peak, false);
  }

  post(floats, peak, last) {
    const samples = toInt16(floats);
    this.port.postMessage({ samples, peak, last }, [samples.buffer]);
  }

  process([channels]) {
    if (!this.running) return false;
    const length = channels.length ? channels[0].length : 0;
    for (let i = 0; i < length; i++) {
      let sum = 0;
      for (const channel of channels) sum += channel[i];
      this.waiting[this.n++] = sum / channels.length;
      if (this.n === this.block) this.send();
    }
    return true;
  }
}

registerProcessor('capture', Capture);
