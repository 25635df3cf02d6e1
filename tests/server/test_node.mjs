/* test_node.mjs BASE FILE FIELDS - requests as openai-node makes them with Node's own fetch, for test_node.py.
 *
 * In: the address up to /v1, a recording, further fields as JSON. Out: a JSON object, what each way of sending gave. */
import { createReadStream, openAsBlob, readFileSync } from 'node:fs';

const [base, path, more] = process.argv.slice(2);
const url = `${base}/audio/transcriptions`;
const fields = Object.entries({ model: 'whisper-1', ...JSON.parse(more) });
const results = {};

function formOf(file, extra = []) {
  const form = new FormData();
  form.append('file', file, 'talk.wav');
  for (const [name, value] of [...fields, ...extra]) form.append(name, value);
  return form;
}

async function textOf(answer) {
  const body = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status}: ${body}`);
  return JSON.parse(body).text;
}

/* A File or Blob: the length is known. */
const blob = openAsBlob ? await openAsBlob(path) : new Blob([readFileSync(path)]);
results['a file'] = await textOf(await fetch(url, { method: 'POST', body: formOf(blob) }));

/* fs.createReadStream: the body is an iterator, and goes out in chunks. */
async function* body(border) {
  const text = new TextEncoder();
  yield text.encode(`--${border}\r\nContent-Disposition: form-data; name="file"; filename="talk.wav"\r\n` +
    'Content-Type: audio/wav\r\n\r\n');
  yield* createReadStream(path);
  for (const [name, value] of fields)
    yield text.encode(`\r\n--${border}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}`);
  yield text.encode(`\r\n--${border}--\r\n`);
}
const border = `openai-${Math.random().toString(16).slice(2)}`;
results['a stream of the file'] = await textOf(await fetch(url, {
  method: 'POST', body: body(border), duplex: 'half',
  headers: { 'Content-Type': `multipart/form-data; boundary=${border}` },
}));

/* stream: true: events, read as they come. */
const answer = await fetch(url, { method: 'POST', body: formOf(blob, [['stream', 'true']]) });
let said = '', rest = '', last = null;
for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
  const blocks = (rest + piece).split('\n\n');
  rest = blocks.pop();
  for (const block of blocks.filter((one) => one.startsWith('data: '))) {
    last = JSON.parse(block.slice(6));
    if (last.type === 'transcript.text.delta') said += last.delta;
  }
}
if (rest || last?.type !== 'transcript.text.done') throw new Error(`the end: ${rest || JSON.stringify(last)}`);
results.deltas = said;
results.done = last.text;

/* Several at once on the connections that fetch keeps. */
const many = await Promise.all(Array.from({ length: 8 }, async () =>
  textOf(await fetch(url, { method: 'POST', body: formOf(blob) }))));
many.forEach((text, i) => { results[`one of eight, ${i}`] = text; });
console.log(JSON.stringify(results));
