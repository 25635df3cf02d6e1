/* test_scripts.mjs - what the page computes without a browser: words after edits, formats, sound, events. Run by
 * test_scripts.py, which puts it beside the page's scripts. */
import assert from 'node:assert/strict';
import { aligned, cut, divide, indexAt, joined, retold, segmentsOf, tokens } from './words.js';
import { clock, json, plain, running, size, srt, vtt } from './formats.js';
import { Resampler, toInt16 } from './resample.js';
import { base64, wavHeader } from './wav.js';

globalThis.sessionStorage = { getItem: () => '', setItem() {}, removeItem() {} };
globalThis.location = new URL('http://127.0.0.1:8000/');
const { eventParser, failureOf } = await import('./api.js');
const { Recording } = await import('./live.js');

const near = (got, want, what) => assert.ok(Math.abs(got - want) < 1e-9, `${what}: ${got} is not ${want}`);
const word = (text, start, end) => ({ word: text, start, end, probability: 0.5 });
const passage = () => ({ start: 1, end: 5, text: ' It was the best', tokens: [7],
  words: [word(' It', 1, 1.5), word(' was', 1.5, 2), word(' the', 3, 4), word(' best', 4, 5)] });
const texts = (words) => words.map((one) => one.word);
const times = (words) => words.flatMap((one) => [one.start, one.end]);

const tests = {
  tokens() {
    assert.deepEqual(tokens(' It  was.'), [' It', '  was.']);
    assert.deepEqual(tokens('今日は good'), ['今', '日', 'は', ' good']);
    assert.deepEqual(tokens(''), []);
  },

  'words that stay keep their times'() {
    const words = aligned(passage(), ' It was the very best');
    assert.deepEqual(texts(words), [' It', ' was', ' the', ' very', ' best']);
    assert.deepEqual([words[0], words[1], words[4]], [passage().words[0], passage().words[1], passage().words[3]]);
    assert.ok(words[2].start === 3 && words[2].end < words[3].end && words[3].end === 4, 'a new word shares');
  },

  'a word that replaces another has its time'() {
    const words = aligned(passage(), ' It was the worst');
    assert.deepEqual(times(words.slice(3)), [4, 5]);
    assert.deepEqual(texts(aligned(passage(), ' He is best')), [' He', ' is', ' best']);
    near(aligned(passage(), ' He is best')[0].start, 1, 'start');
    near(aligned(passage(), ' He is best')[1].end, 4, 'end of what replaced three words');
  },

  'words can come first, last, or alone'() {
    const first = aligned(passage(), ' Now it It was the best');
    assert.equal(first[0].start, 1);
    assert.ok(first.every((one, i) => one.end > one.start && (!i || one.start >= first[i - 1].end)), 'in order');
    const last = aligned(passage(), ' It was the best of times');
    assert.equal(last[5].end, 5);
    assert.ok(last.every((one) => one.end > one.start), 'none without time');
    assert.deepEqual(times(aligned(passage(), ' Nothing')), [1, 5]);
    assert.deepEqual(aligned(passage(), ''), []);
    assert.deepEqual(times(aligned({ start: 2, end: 6, words: [] }, ' ab cd')), [2, 4, 4, 6]);
  },

  'every edit keeps order and bounds'() {
    let seed = 1;
    const random = (n) => (seed = seed * 16807 % 2147483647) % n;
    for (let run = 0; run < 500; run++) {
      const segment = passage();
      const choices = [' It', ' was', ' the', ' best', ' new'];
      const text = Array.from({ length: random(9) }, () => choices[random(5)]).join('');
      const words = aligned(segment, text);
      assert.equal(texts(words).join(''), text);
      words.forEach((one, i) => assert.ok(one.start >= 1 && one.end <= 5 && one.end >= one.start &&
        (!i || one.start >= words[i - 1].end - 1e-9), `${text}: ${JSON.stringify(words)}`));
    }
  },

  'what is typed'() {
    const segment = passage();
    assert.equal(retold(segment, ' It was the best '), segment, 'no edit, no change');
    const edited = retold(segment, 'It was\nbest');
    assert.equal(edited.text, ' It was best');
    assert.equal(edited.edited, true);
    assert.deepEqual(segment, passage(), 'the old one is as it was');
    assert.equal(retold(segment, '  ').text, '');
  },

  'cut and joined'() {
    const [left, right] = cut(passage(), 7);      // "It was |the best"
    assert.deepEqual([left.text, left.end, right.text, right.start], [' It was', 2, ' the best', 3]);
    const [a, b] = cut(passage(), 5);             // "It wa|s the best"
    assert.deepEqual([a.text, b.text], [' It wa', ' s the best']);
    near(a.end, 1.5 + 0.5 * 2 / 3, 'inside of a word');
    assert.equal(cut(passage(), 0), null);
    assert.equal(cut(passage(), 99), null);
    const again = joined(left, right);
    assert.deepEqual([again.text, again.start, again.end, times(again.words)],
      [passage().text, 1, 5, times(passage().words)]);
    const bare = (text) => ({ ...left, text, words: [word(text, 1, 2)] });
    assert.deepEqual(texts(joined(bare('a'), bare('b')).words), ['a', ' b']);
  },

  'words at the top of an answer'() {
    const result = { segments: [{ start: 0, end: 2, text: ' Hello, you.' }, { start: 2, end: 3, text: ' Well' }],
      words: [word('Hello', 0, 1), word('you', 1, 2), word('Well', 2, 3)] };
    const segments = segmentsOf(result);
    assert.equal(texts(segments[0].words).join(''), ' Hello, you.', 'nothing of the text is lost');
    assert.deepEqual(texts(segments[1].words), [' Well']);
    assert.equal(segmentsOf({ segments: [{ start: 0, end: 1, text: ' a b' }] })[0].words.length, 2, 'without words');
  },

  'long passages are divided'() {
    const segment = passage();
    assert.deepEqual(divide(segment), [segment], 'a short one is not');
    const words = Array.from({ length: 40 }, (_, i) => word(i % 10 === 9 ? ' end.' : ' word', i, i + 1));
    const long = { start: -1, end: 41, text: texts(words).join(''), words };
    const parts = divide(long);
    assert.equal(parts.length, 4);
    assert.equal(parts.map((part) => part.text).join(''), long.text);
    assert.deepEqual(parts.map((part) => [part.start, part.end]), [[-1, 10], [10, 20], [20, 30], [30, 41]]);
    const bare = words.map((one) => ({ ...one, word: ' word' }));
    assert.ok(divide({ ...long, words: bare }).length > 2, 'without any sign');
  },

  indexAt() {
    assert.deepEqual([-1, 0, 0.5, 1, 9].map((time) => indexAt([0, 1, 1, 2], time)), [-1, 0, 0, 2, 3]);
    assert.equal(indexAt([], 1), -1);
  },

  formats() {
    const segments = [{ start: 0, end: 1.0005, text: ' One --> two.' }, { start: 3, end: 4, text: '' },
      { start: 3661.5, end: 3662, text: ' Three' }];
    assert.equal(srt(segments), '1\n00:00:00,000 --> 00:00:01,001\nOne -> two.\n\n' +
      '2\n01:01:01,500 --> 01:01:02,000\nThree\n\n');
    assert.equal(vtt(segments), 'WEBVTT\n\n00:00.000 --> 00:01.001\nOne -> two.\n\n' +
      '01:01:01.500 --> 01:01:02.000\nThree\n\n');
    assert.equal(plain(segments), 'One --> two.\nThree\n');
    assert.equal(running(segments), 'One --> two. Three');
    const entry = { name: 'a.wav', language: 'english', segments: [passage(), retold(passage(), 'It is')] };
    const written = JSON.parse(json(entry));
    assert.deepEqual(written.segments.map((one) => one.tokens), [[7], undefined], 'an edited one has no tokens');
    assert.deepEqual([written.edited, written.segments[1].id, written.text], [true, 1, 'It was the best It is']);
    assert.deepEqual([clock(0), clock(75.9), clock(3661)], ['0:00', '1:15', '1:01:01']);
    assert.deepEqual([size(999), size(1500), size(2.5e7)], ['999 bytes', '1.5 kB', '25 MB']);
  },

  'a tone keeps its pitch and strength at any rate'() {
    for (const [from, to] of [[48000, 24000], [44100, 24000], [16000, 24000], [24000, 24000]]) {
      const n = from, out = [], resampler = new Resampler(from, to);
      for (let at = 0; at < n; at += 128)
        out.push(...resampler.feed(Float32Array.from({ length: Math.min(128, n - at) }, (_, i) =>
          0.5 * Math.sin(2 * Math.PI * 1000 * (at + i) / from))));
      out.push(...resampler.finish());
      assert.ok(Math.abs(out.length - to) <= 2, `${from}: ${out.length} samples`);
      let worst = 0;
      for (let i = 200; i < to - 200; i++)
        worst = Math.max(worst, Math.abs(out[i] - 0.5 * Math.sin(2 * Math.PI * 1000 * i / to)));
      assert.ok(worst < 1e-3, `${from} to ${to}: off by ${worst}`);
    }
  },

  'what the new rate cannot have is left out'() {
    const resampler = new Resampler(48000, 24000);
    const tone = Float32Array.from({ length: 48000 }, (_, i) => Math.sin(2 * Math.PI * 15000 * i / 48000));
    const out = resampler.feed(tone);
    assert.ok(Math.max(...out.slice(300, 20000).map(Math.abs)) < 1e-3);
  },

  samples() {
    assert.deepEqual([...toInt16([0, 1, -1, 2, -2, 0.5])], [0, 32767, -32767, 32767, -32767, 16384]);
    const view = new DataView(wavHeader(10, 24000));
    assert.deepEqual([view.getUint32(4, true), view.getUint32(24, true), view.getUint32(40, true)], [56, 24000, 20]);
    assert.equal(base64(Int16Array.of(1, -2)), 'AQD+/w==');
    assert.equal(Buffer.from(base64(new Int16Array(20000)), 'base64').length, 40000);
  },

  'events in pieces'() {
    const stream = ': ping\n\ndata: {"a": 1}\n\ndata: {"b":\r\ndata: "é"}\r\n\r\ndata: [DONE]\n\ndata: {"lost": 1}\n';
    for (let step = 1; step < stream.length; step++) {
      const seen = [], feed = eventParser((event) => seen.push(event));
      for (let at = 0; at < stream.length; at += step) feed(stream.slice(at, at + step));
      assert.deepEqual(seen, [{ a: 1 }, { b: 'é' }], `pieces of ${step}`);
    }
    assert.throws(() => eventParser(() => {})('data: {\n\n'), SyntaxError);
  },

  /* A Recording without a microphone, whose socket opens when the test says so */
  async 'a recording that ends before its connection is there'() {
    const sockets = [], told = [];
    globalThis.WebSocket = class {
      static OPEN = 1;
      constructor() {
        Object.assign(this, { readyState: 0, sent: [] });
        sockets.push(this);
      }
      send(text) { this.sent.push(JSON.parse(text).type); }
      close() { this.readyState = 3; }
      open() {
        this.readyState = 1;
        this.onopen();
      }
    };
    const begun = async () => {
      const recording = new Recording('id', {}, { level() {}, text() {}, broken: (why) => told.push(why) });
      const connected = recording.connect();
      recording.take({ samples: new Int16Array(2400), peak: 0 });
      await new Promise(setImmediate);
      return [recording, connected, sockets.at(-1)];
    };
    const [late, connected, socket] = await begun();
    await late.lastWords();
    assert.equal(late.isWhole, false, 'the server has heard nothing');
    socket.open();
    await connected;
    assert.deepEqual([socket.readyState, socket.sent, late.socket], [3, [], null], 'closed as soon as it is open');
    const [failed, unconnected, broken] = await begun();
    await failed.lastWords();
    broken.onerror();
    await unconnected;
    assert.deepEqual([failed.isWhole, told], [false, []], 'nobody is told of a connection that is not needed');
    const [heard, open, ready] = await begun();
    ready.open();
    await open;
    const end = heard.lastWords();
    heard.receive({ type: 'error', error: { message: 'buffer too small' } });
    await end;
    assert.deepEqual([heard.isWhole, ready.readyState], [true, 3], 'one that was there in time');
    assert.deepEqual(ready.sent, ['session.update', 'input_audio_buffer.append', 'input_audio_buffer.commit']);
  },

  failures() {
    const body = JSON.stringify({ error: { message: 'The queue is full.' } });
    const busy = failureOf(429, body, '7');
    assert.deepEqual([busy.kind, busy.message, busy.wait], ['busy', 'The queue is full.', 7]);
    assert.deepEqual([401, 403, 413, 400, 500, 503].map((status) => failureOf(status, '', null).kind),
      ['key', 'refused', 'large', 'refused', 'broken', 'busy']);
    assert.match(failureOf(502, '<html>', null).message, /502/);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
  } catch (error) {
    failed++;
    console.log(`failed: ${name}\n${error.stack}`);
  }
}
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
