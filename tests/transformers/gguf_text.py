"""GGUF files of moec in llama.cpp; see gguf.sh.

For each architecture a small model with a tokenizer is trained for a few steps and exported. The gguf package knows its keys and
tensors. llama.cpp generates the text of moec, with the same log-probabilities of all tokens at each position. The imported file is
the same model. With its matrices in Q8_0, written by the package, the import has the values of the package.
"""
import json
import pathlib
import struct
import subprocess
import sys

import gguf
import numpy
import xllamacpp

MODELS = """use decoder
model llama = decoder {
  vocab_size = 400, dim = 64, layers = 2, attention = { heads = { q = 4, k = 2 }, head_dim = 16 }, ffn.hidden_dim = 96
  train = { context_length = 256, batch_size = 2, lr = 3e-3, steps = 60 }
}
model llama_tied = llama { tie_embeddings = true }
model llama_linear = llama { attention.rotary = linear_rotary { factor = 4 } }
model llama_yarn = llama { attention.rotary = yarn_rotary { factor = 8, original_context_length = 32 } }
model llama_three = llama { attention.rotary = llama3_rotary { theta = 10000, factor = 8, original_context_length = 256 } }
model mixtral = llama { ffn = moe { experts = 4, top_k = 2, expert = swiglu { hidden_dim = 48 }, route_norm = top_k } }
model qwen2 = llama { attention = { bias = true, output_projection_bias = false } }
model qwen3 = llama { attention.qk_norm = true }
model qwen3moe = mixtral { attention.qk_norm = true }
model gpt2 = llama {
  position_embedding = learned, norm = layer_norm, ffn = mlp { act = gelu_tanh, bias = true, hidden_dim = 96 }
  attention = { heads = { q = 4, k = 4 }, bias = true, rotary = none }
}
"""
VOCABULARY, CONTEXT = 400, 256  # of MODELS
LIMIT = {"gpt2": 2e-3}  # of log-probabilities: llama.cpp computes GELU by a 16-bit table


def moec(*arguments):
    done = subprocess.run(["moec", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"moec {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_names(path, architecture):
    """The package knows every tensor of the architecture."""
    reader = gguf.GGUFReader(path)
    number = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    known = {gguf.TENSOR_NAMES[kind] for kind in gguf.MODEL_TENSORS[number]}
    for tensor in reader.tensors:
        stem = tensor.name.rsplit(".", 1)[0]
        parts = stem.split(".")
        if parts[0] == "blk":
            stem = ".".join(["blk", "{bid}", *parts[2:]])
        assert stem in known, f"{tensor.name} is none of {architecture}"
    return len(reader.tensors)


def floats(path):
    """The numbers of the tensors of a safetensors file in F32, by name."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    places = {name: value["data_offsets"] for name, value in header.items() if value.get("dtype") == "F32"}
    return {name: numpy.frombuffer(data[start + a:start + b], "<f4") for name, (a, b) in places.items()}


def quantise(path, out):
    """Rewrites a file with its matrices in Q8_0; returns their dequantized values."""
    reader, kind = gguf.GGUFReader(path), gguf.GGMLQuantizationType.Q8_0
    writer = gguf.GGUFWriter(out, bytes(reader.fields["general.architecture"].parts[-1]).decode())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.alignment"):
            continue
        inner = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], inner)
    numbers = []
    for tensor in reader.tensors:
        if tensor.data.ndim < 2 or tensor.data.shape[-1] % 32:
            writer.add_tensor(tensor.name, tensor.data)
            if tensor.name != "rope_freqs.weight":  # stored in options by moec
                numbers.append(tensor.data.ravel())
            continue
        blocks = gguf.quants.quantize(tensor.data, kind)
        writer.add_tensor(tensor.name, blocks, raw_dtype=kind)
        numbers.append(gguf.quants.dequantize(blocks, kind).ravel())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return numpy.sort(numpy.concatenate(numbers))


def read_again(run, out):
    """The imported file is the original model; a file in Q8_0 has the values of the package."""
    moec("import", out / "model.gguf", "--out", out / "again")
    before, after = floats(run / "last.safetensors"), floats(out / "again" / "last.safetensors")
    assert after and all(numpy.array_equal(before[name], after[name]) for name in after), "other weights"
    moec("export", out / "again", "--format", "gguf", "--out", out / "twice")
    wanted = quantise(out / "model.gguf", out / "small.gguf")
    moec("import", out / "small.gguf", "--out", out / "small")
    found = numpy.sort(numpy.concatenate(list(floats(out / "small" / "last.safetensors").values())))
    assert numpy.array_equal(wanted, found), "other numbers in Q8_0"


def read_by_llama(path):
    """A llama.cpp server with the model, with f32 caches."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.warmup = False
    parameters.verbosity = -1
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED  # which rounds keys
    return xllamacpp.Server(parameters)


def theirs(path, prompt, count):
    """The greedy text of llama.cpp, its tokens, and the log-probabilities [position, token]."""
    server = read_by_llama(path)
    result = server.handle_completions({"prompt": prompt, "max_tokens": count, "temperature": 0, "logprobs": VOCABULARY,
                                      "ignore_eos": True})
    choice = result["choices"][0]
    places = choice["logprobs"]["content"]
    table = numpy.full((len(places), VOCABULARY), numpy.nan)
    for i, place in enumerate(places):
        for one in place["top_logprobs"]:
            table[i, one["id"]] = one["logprob"]
    return prompt + choice["text"], [place["id"] for place in places], table


def ours(run, name, tokens, before):
    """The log-probabilities [position, token] after the first `before` tokens."""
    out, padded = run / "logits.safetensors", tokens + [0] * (CONTEXT + 1 - len(tokens))
    with open(run / "tokens.bin", "wb") as file:
        file.write(struct.pack("<256I", 20240801, 1, len(padded), *[0] * 253))
        file.write(struct.pack(f"<{len(padded)}I", *padded))
    moec("forward", f"{run.parent / 'models.moe'}:{name}", "--weights", run / "last.safetensors", "--input", run / "tokens.bin", "--outputs",
         "logits", "--out", out, "--set", "train.batch_size=1")
    logits = floats(out)["logits"].reshape(CONTEXT, VOCABULARY).astype(float)[before - 1:len(tokens) - 1]
    logits -= logits.max(-1, keepdims=True)
    return logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))


def tokens_of(text, tokenizer, folder):
    (folder / "prompt").write_text(text)
    moec("tokenize", folder / "prompt", "--tokenizer", tokenizer, "--out", folder / "prompt.bin")
    data = (folder / "prompt.bin").read_bytes()
    return list(numpy.frombuffer(data[1024:], "<u2" if int.from_bytes(data[:4], "little") == 20240520 else "<u4"))


def compare(name, folder, text, tokenizer):
    architecture = "llama" if name.startswith("llama_") or name == "mixtral" else name
    spec, run, out = folder / "models.moe", folder / name, folder / f"{name}_gguf"
    moec("train", f"{spec}:{name}", "--tokenizer", tokenizer, "--data", text, "--out", run)
    moec("export", run, "--format", "gguf", "--out", out)
    count = check_names(out / "model.gguf", architecture)
    read_again(run, out)
    prompt = "The language is"
    mine = moec("generate", run, "--prompt", prompt, "-n", 40, "--temperature", 0)
    text, tokens, table = theirs(out / "model.gguf", prompt, 40)
    begin = tokens_of(prompt, tokenizer, folder)
    apart = abs(ours(run, name, begin + tokens, len(begin)) - table).max()
    print(f"{name}: {count} tensors, {'the same text' if mine == text else f'{text!r} instead of {mine!r}'},"
          f" log-probabilities at most {apart:.1e} apart")
    return mine == text and apart < LIMIT.get(name, 1e-4)


def main():
    folder = pathlib.Path(sys.argv[1])
    text, tokenizer = folder / "text", folder / "tokenizer.json"
    (folder / "models.moe").write_text(MODELS)
    text.write_bytes(pathlib.Path("README.md").read_bytes() + pathlib.Path("stdlib/LANGUAGE.md").read_bytes())
    moec("tokenizer", "train", text, "--vocab-size", VOCABULARY, "--out", tokenizer)
    names = sys.argv[2:] or [line.split()[1] for line in MODELS.splitlines() if line.startswith("model ")]
    failed = [name for name in names if not compare(name, folder, text, tokenizer)]
    print(f"{len(failed)} failed: {' '.join(failed)}" if failed else "all agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
