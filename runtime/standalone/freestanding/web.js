// The worker: compiles the model, writes its weights, then answers requests for text. Messages to the page: {ready}, {text},
// {done, tokens, seconds} or {error}. It makes no network request.
const errors = {
  '-1': 'out of memory', '-2': 'the tokenizer of this model cannot encode text', '-4': 'the context is full',
  '-5': 'the weights are damaged',
};
let model, stopped;

function put(bytes, address) { new Uint8Array(model.memory.buffer, address, bytes.length).set(bytes); }

function room(bytes) {
  const address = model.web_room(bytes.length);
  put(bytes, address);
  return address;
}

async function load(parts) {
  // The program reads no files: a call of the environment is an error.
  const unused = new Proxy({}, { get: () => () => { throw new Error('the program called the environment'); } });
  const imports = new Proxy({}, { get: () => unused });
  model = (await WebAssembly.instantiate(parts.program, imports)).instance.exports;
  if (model._initialize) model._initialize();
  put(parts.weights, model.web_weights(0));
  put(parts.rounded, model.web_weights(1));
  if (parts.tokenizer.length && model.web_tokenizer(room(parts.tokenizer), parts.tokenizer.length))
    throw new Error('the tokenizer is damaged');
}

const pause = () => new Promise((resume) => setTimeout(resume, 0));

async function generate({ prompt, count, temperature, seed }) {
  const started = performance.now();
  const given = model.web_start(room(new TextEncoder().encode(prompt + '\0')));
  if (given < 0) throw new Error(errors[given]);
  if (given === 0) throw new Error('the prompt is empty');
  const decoder = new TextDecoder();
  const read = performance.now();
  let tokens = 0, shown = read, text = '';
  stopped = false;
  for (; tokens < count && !stopped; tokens++) {
    const token = model.web_next(temperature, BigInt(seed), tokens);
    if (token < 0) break;
    const bytes = new Uint8Array(model.memory.buffer, model.web_text(token), model.web_text_length(token));
    text += decoder.decode(bytes.slice(), { stream: true });
    if (performance.now() - shown > 30) {
      self.postMessage({ text });
      text = '';
      shown = performance.now();
      await pause();
    }
    if (tokens + 1 < count) {
      const error = model.web_step(token);
      if (error === -4) { tokens++; break; }
      if (error) throw new Error(errors[error]);
    }
  }
  self.postMessage({ text: text + decoder.decode() });
  self.postMessage({ done: true, given, tokens, prompt_seconds: (read - started) / 1000, seconds: (performance.now() - read) / 1000 });
}

self.onmessage = async ({ data }) => {
  try {
    if (data.stop) stopped = true;
    else if (data.program) { await load(data); self.postMessage({ ready: true }); }
    else await generate(data);
  } catch (error) {
    self.postMessage({ error: error.message });
  }
};
