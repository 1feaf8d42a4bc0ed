"""llama.cpp for decode.sh. decode.py FOLDER files FILE.gguf writes FOLDER/f32.gguf, f16.gguf, q8_0.gguf and q4_0.gguf of a llama, with one
text per token. decode.py FOLDER tokens writes FOLDER/tokens.bin for training. decode.py FOLDER run NAME COUNT greedily decodes COUNT
tokens after the prompt 1 5 7 and prints tokens per second and, on a second line, the tokens."""

import struct
import sys

FOLDER, THREADS, VOCABULARY = sys.argv[1], 2, 32000


def files(path):
    import gguf
    import numpy

    reader = gguf.GGUFReader(path)
    for name in ("f32", "f16", "q8_0", "q4_0"):
        writer = gguf.GGUFWriter(f"{FOLDER}/{name}.gguf", "llama")
        for field in reader.fields.values():
            if not field.name.startswith(("GGUF.", "tokenizer.", "general.")):
                writer.add_key_value(field.name, field.contents(), field.types[0], field.types[1] if len(field.types) > 1 else None)
        special = ["<unk>", "<s>", "</s>"]
        writer.add_tokenizer_model("llama")
        writer.add_token_list(special + [f"<0x{i:02X}>" for i in range(256)] + [f" {i}" for i in range(259, VOCABULARY)])
        writer.add_token_scores([0.0] * VOCABULARY)
        writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259))
        for tensor in reader.tensors:
            if name == "f32" or tensor.data.ndim < 2:
                writer.add_tensor(tensor.name, tensor.data)
            elif name == "f16":
                writer.add_tensor(tensor.name, tensor.data.astype(numpy.float16))
            else:
                kind = gguf.GGMLQuantizationType[name.upper()]
                writer.add_tensor(tensor.name, gguf.quants.quantize(tensor.data, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def tokens():
    count = 520
    with open(FOLDER + "/tokens.bin", "wb") as file:  # in the format of llm.c
        file.write(struct.pack("<256I", 20240520, 1, count, *[0] * 253))
        file.write(struct.pack(f"<{count}H", *[i * 977 % VOCABULARY for i in range(count)]))


def run(name, count):
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = f"{FOLDER}/{name}.gguf"
    parameters.n_ctx = 512
    parameters.n_parallel = 1
    parameters.verbosity = -1
    parameters.cpuparams.n_threads = THREADS
    server = xllamacpp.Server(parameters)
    result = server.handle_completions({"prompt": [1, 5, 7], "max_tokens": count, "temperature": 0, "ignore_eos": True})
    print(result["timings"]["predicted_per_second"])
    print(result["choices"][0]["text"].strip())


if __name__ == "__main__":
    what, *rest = sys.argv[2:]
    if what == "files":
        files(rest[0])
    elif what == "tokens":
        tokens()
    else:
        run(rest[0], int(rest[1]))
