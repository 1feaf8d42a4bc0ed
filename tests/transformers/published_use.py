"""Use of a published model by the commands of the guides, beside llama.cpp: perplexity, `moec serve`, LoRA. See gguf_published.sh."""
import inspect
import json
import pathlib
import socket
import struct
import subprocess
import time

import numpy
import numpy.ma

import gguf_text
from gguf_text import moec

WINDOW, WINDOWS = 96, 3  # of the perplexity; each window begins with <bos> if the tokenizer has one, which Gemma needs
QUESTION = "What is the capital of France?"
CONTEXT, STEPS, BATCH = 128, 20, 2  # of LoRA; llama.cpp reads at most CONTEXT tokens of the exported model
LORA = """use lora
use {base}

model tuned = {base} {{
  train      = {{ lr = 1e-3, context_length = {context}, batch_size = {batch}, steps = {steps}, eval_interval = 0 }}
  parameters = [{{ of = "*", freeze = true }}, {{ of = "block.*", apply = lora {{ rank = 8 }} }}]
}}
"""


def write_texts(folder):
    """1 MB of documentation of numpy for training. Each 16th entry is for validation, of which the first 8 kB are used."""
    parts = [numpy, numpy.linalg, numpy.fft, numpy.random, numpy.ndarray, numpy.random.Generator, numpy.ma, numpy.ma.MaskedArray]
    entries = list(dict.fromkeys(filter(None, (inspect.getdoc(getattr(part, name)) for part in parts for name in sorted(dir(part))))))
    train = "\n\n".join(entry for i, entry in enumerate(entries) if i % 16).encode()
    assert len(train) > 1_000_000
    (folder / "train.txt").write_bytes(train[:1_000_000].decode(errors="ignore").encode())
    (folder / "held.txt").write_bytes("\n\n".join(entries[::16]).encode()[:8000].decode(errors="ignore").encode())


def evaluated(run, data, context=CONTEXT):
    """The mean negative log-likelihood in nats per token."""
    return json.loads(moec("eval", run, "--data", data, "-c", context, "-b", 1, "--json"))["loss"]


def windows_of(folder):
    """Windows of WINDOW + 1 tokens of the validation text."""
    def tokens_of(text):
        (folder / "prompt.bin").unlink(missing_ok=True)
        return [int(one) for one in gguf_text.tokens_of(text, folder / "tokenizer.json", folder)]

    first, tokens = tokens_of("a"), tokens_of((folder / "held.txt").read_text())
    start = first[:1] if first[:1] == tokens[:1] else []
    tokens = tokens[len(start):]
    step = WINDOW - len(start)
    return [start + tokens[i * step:(i + 1) * step + 1] for i in range(WINDOWS)]


def loss_of_moec(run, folder, windows):
    """The mean negative log-likelihood of the windows."""
    total, data = 0, folder / "window.bin"
    for window in windows:
        data.write_bytes(struct.pack(f"<256I{len(window)}I", 20240801, 1, len(window), *[0] * 253, *window))
        total += evaluated(run, data, WINDOW)
    return total / len(windows)


def loss_of_llama(file, windows):
    """The same mean by llama.cpp. A large bias selects the known token; the reported log-probability is without the bias."""
    server, total = gguf_text.read_by_llama(file), 0
    for window in windows:
        for end in range(1, WINDOW + 1):
            result = server.handle_completions({"prompt": window[:end], "max_tokens": 1, "temperature": 0, "logprobs": 1,
                                                "logit_bias": {str(window[end]): 1000}})
            assert "choices" in result, result
            found = result["choices"][0]["logprobs"]["content"][0]
            assert found["id"] == window[end]
            total -= found["logprob"]
    return total / (WINDOW * WINDOWS)


def compare_perplexity(run, file, folder, limit):
    """limit: relative difference of the mean negative log-likelihood."""
    windows = windows_of(folder)
    mine, other = loss_of_moec(run, folder, windows), loss_of_llama(file, windows)
    print(f"{pathlib.Path(file).name}: perplexity of {WINDOW * WINDOWS} tokens {numpy.exp(mine):.3f}, of llama.cpp {numpy.exp(other):.3f}; "
          f"negative log-likelihood {mine:.4f} and {other:.4f}, {abs(mine / other - 1):.1e} apart")
    assert abs(mine / other - 1) < limit


def check_server(run, chat):
    """A chat request has the greedy answer of `moec generate --chat`; a request without a chat template that of `moec generate`."""
    expected = moec("generate", run, *["--chat"][:chat], "--prompt", QUESTION, "-n", 24, "--temperature", 0)
    expected = expected if chat else expected.removeprefix(QUESTION)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asked = {"messages": [{"role": "user", "content": QUESTION}]} if chat else {"prompt": QUESTION}
    path = "chat/completions" if chat else "completions"
    server = subprocess.Popen(["moec", "serve", str(run), "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        answer = subprocess.run(["curl", "-s", "--retry", "60", "--retry-connrefused", "--retry-delay", "1", "-H",
                                 "Content-Type: application/json", "-d", json.dumps(asked | {"max_tokens": 24, "temperature": 0}),
                                 f"127.0.0.1:{port}/v1/{path}"],
                                check=True, capture_output=True, text=True).stdout
    finally:
        server.terminate()
        server.wait()
    choice = json.loads(answer)["choices"][0]
    text = choice["message"]["content"] if chat else choice["text"]
    print(f"answer of moec serve: {text!r}")
    assert text and text.strip() == expected.strip(), f"moec generate: {expected!r}"


def tune(run, folder, layout, rise):
    """LoRA on 1 MB of text, merged and exported in the layout and as GGUF. rise: the largest increase of the loss in Q8_0."""
    base = next(run.glob("*.moe")).stem
    spec, held = run / "tuned.moe", folder / "held.txt"
    spec.write_text(LORA.format(base=base, context=CONTEXT, batch=BATCH, steps=STEPS))
    before, began = evaluated(run, held), time.time()
    result = json.loads(moec("train", spec, "--init-from", run, "--init-missing", "--data", folder / "train.txt", "--val-data", held,
                             "--out", folder / "tuned", "--json"))
    seconds, after = time.time() - began, evaluated(folder / "tuned", held)
    planned = json.loads(moec("check", spec, "--json"))["peak_bytes"]
    print(f"LoRA, {STEPS} steps of {CONTEXT * BATCH} tokens: {seconds:.0f} s, loss {before:.4f} -> {after:.4f}, "
          f"peak memory {result['peak_memory_bytes'] / 1e6:.0f} MB, of moec check {planned / 1e6:.0f} MB")
    assert result["peak_memory_bytes"] < 1.25 * planned  # also has the program and one tensor of the written file
    assert after < before - 0.1  # SmolLM2: 0.22
    moec("merge", folder / "tuned", "--out", folder / "merged")
    merged = evaluated(folder / "merged", held)
    assert abs(merged - after) < 1e-4
    for kind, path, limit in (layout, folder / f"tuned_{layout}", 1e-5), ("gguf", folder / "tuned_gguf" / "model.gguf", rise):
        moec("export", folder / "merged", "--format", kind, "--out", folder / f"tuned_{kind}", *["--type", "q8_0"][:2 * (kind == "gguf")])
        moec("import", path, "--out", folder / f"again_{kind}")
        again = evaluated(folder / f"again_{kind}", held)
        print(f"merged run as {kind}: loss {again - merged:+.5f}")
        assert abs(again - merged) < limit
    compare_perplexity(folder / "merged", path, folder, 1e-2)
