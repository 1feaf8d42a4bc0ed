// page.mjs PAGE PROMPT COUNT TEMPERATURE SEED: runs the worker of a page in node as a browser does. Writes the text to stdout, tokens/s
// of its second run to stderr.
import { readFileSync } from 'node:fs';

const [, , path, prompt, count, temperature, seed] = process.argv;
const page = readFileSync(path, 'utf8');
const part = (name) => page.match(new RegExp(`<script type="text/plain" id="${name}">([^]*?)</script>`))[1];
const bytes = (name) => new Uint8Array(Buffer.from(part(name), 'base64'));
const scope = {};
let text = '', loaded, ended;
const ready = new Promise((resolve) => { loaded = resolve; });
scope.postMessage = (data) => {
  if (data.text !== undefined) text += data.text;
  if (data.error) { console.error(data.error); process.exit(1); }
  if (data.ready) loaded();
  if (data.done) ended(data);
};
const denied = () => { throw new Error('a network request'); };
new Function('self', 'fetch', 'XMLHttpRequest', 'WebSocket', part('worker'))(scope, denied, denied, denied);
scope.onmessage({ data: { program: bytes('program'), weights: bytes('weights'), rounded: bytes('rounded'), tokenizer: bytes('tokenizer') } });
await ready;
for (let run = 0; run < 2; run++) {
  text = '';
  const done = new Promise((resolve) => { ended = resolve; });
  scope.onmessage({ data: { prompt, count: Number(count), temperature: Number(temperature), seed } });
  const result = await done;
  if (run) console.error(`${result.given} ${result.tokens} ${(result.tokens / result.seconds).toFixed(1)}`);
}
process.stdout.write(`${prompt}${text}`);
