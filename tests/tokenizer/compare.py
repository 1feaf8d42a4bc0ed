#!/usr/bin/env python3
"""Compares `moec`'s tokenizer with the tokenizers library: tokens and decoded bytes of random and difficult strings, and speed.

    tests/tokenizer/compare.sh [STRINGS [KIND...]]  installs the library into a separate folder, then runs this
    python3 tests/tokenizer/compare.py fixtures   writes the small files for the unit test; existing tokenizers stay
"""
import json
import os
import struct
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import build  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get("PROGRAM") or os.path.join(build.ROOT, os.environ.get("BUILD", "build"), "tests", "unit", "test_tokenizer")


def block(data):
    return struct.pack("<I", len(data)) + data


def numbers(ids):
    return struct.pack("<I", len(ids)) + struct.pack(f"<{len(ids)}i", *ids)


def write_expected(path, tokenizer, texts):
    """Text, tokens with and without the template, the decoded text of all tokens, and without special tokens."""
    with open(path, "wb") as file:
        file.write(struct.pack("<I", len(texts)))
        for text in texts:
            string = text.decode("utf-8", "replace")
            full = tokenizer.encode(string).ids
            plain = tokenizer.encode(string, add_special_tokens=False).ids
            file.write(block(text) + numbers(full) + numbers(plain))
            file.write(block(tokenizer.decode(full, skip_special_tokens=False).encode()))
            file.write(block(tokenizer.decode(full, skip_special_tokens=True).encode()))


def speed(tokenizer, texts):
    decoded = [text.decode("utf-8", "replace") for text in texts]
    began = time.perf_counter()
    tokenizer.encode_batch_fast(decoded)  # without offsets, as moec
    return sum(map(len, texts)) / (time.perf_counter() - began) / 1e6


def fixtures():
    folder = os.path.join(HERE, "fixtures")
    size = {"unigram_bytes": 1200, "t5": 1200}
    for kind in build.KINDS:
        path = os.path.join(folder, kind.__name__ + ".json")
        os.makedirs(folder, exist_ok=True)
        if not os.path.exists(path):
            kind(size.get(kind.__name__, 400)).save(path, pretty=False)
        tokenizer = fresh(path)
        write_expected(os.path.join(folder, kind.__name__ + ".expected"), tokenizer, build.strings(9, 7))


def training(folder):
    """Compares the tokenizer of `moec tokenizer train` with that of the library for the same text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    text, made = os.path.join(folder, "text"), os.path.join(folder, "made.json")
    with open(text, "w", encoding="utf-8") as file:
        file.write("".join(build.corpus()))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=5000, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    began = time.perf_counter()
    tokenizer.train([text], trainer)
    theirs = time.perf_counter() - began
    began = time.perf_counter()
    subprocess.run([os.path.join(os.path.dirname(PROGRAM), "../../moec"), "tokenizer", "train", text, "--vocab-size", "5000", "--out", made],
                   check=True, capture_output=True)
    ours = time.perf_counter() - began
    with open(made, encoding="utf-8") as file:
        same = json.load(file) == json.loads(tokenizer.to_str())
    print(f"a trained one: {'the same file' if same else 'ANOTHER FILE'}  ours {ours:.2f} s, theirs {theirs:.2f} s")
    return same


def main():
    if sys.argv[1:] == ["fixtures"]:
        return fixtures()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100000
    folder = os.environ.get("WORK", "/tmp/moec_tokenizers")
    os.makedirs(folder, exist_ok=True)
    texts = build.strings(count, int(os.environ.get("SEED", "3"))) + build.long_strings()
    prose = [line.encode() for line in build.corpus()] * 3
    failed = not sys.argv[2:] and not training(folder)
    print(f"{len(texts)} strings, {sum(map(len, texts)) / 1e6:.1f} MB; speed on one thread in MB/s: theirs and ours, random and prose")
    for name, path, tokenizer in build.made(folder, 3000, sys.argv[2:]):
        expected = os.path.join(folder, name + ".bin")
        write_expected(expected, tokenizer, texts)
        theirs = speed(fresh(path), texts), speed(fresh(path), prose)
        with open(os.path.join(folder, "prose.bin"), "wb") as file:
            file.write(b"".join(prose))
        result = subprocess.run([PROGRAM, "compare", path, expected, os.path.join(folder, "prose.bin")], capture_output=True, text=True)
        last = (result.stdout.strip().splitlines() or ["nothing"])[-1]
        print(f"{name:14} {last}  theirs {theirs[0]:6.1f} {theirs[1]:6.1f}", flush=True)
        if result.returncode:
            failed = True
            print("\n".join(result.stdout.splitlines()[:12]), result.stderr[:2000])
    sys.exit(failed)


def fresh(path):
    """A new tokenizer with an empty cache of words."""
    from tokenizers import Tokenizer
    return Tokenizer.from_file(path)


main()
