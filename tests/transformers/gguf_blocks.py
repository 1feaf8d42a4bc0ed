"""Prints the table of tests/unit/test_gguf_blocks.c: per quantized type of GGUF, XXH3 of the values of 200 pseudo-random blocks, as
the package gguf dequantizes them, and XXH3 of 200 blocks of pseudo-random values that the package quantizes (0: it cannot). Needs gguf, numpy and xxhash; run by tests/transformers/gguf.sh, which compares it with the test."""
import gguf
import numpy
import xxhash

BLOCKS = 200
# Byte offsets of the half-precision numbers of a block; they are made finite.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [0]}


def pseudo_random(count):
    """The states of a linear congruential generator modulo 2^32."""
    state, out = 1, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state)
    return numpy.array(out, numpy.uint32)


for name, halves in HALVES.items():
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = (pseudo_random(BLOCKS * size) >> 24).astype(numpy.uint8).reshape(BLOCKS, size)
    for offset in halves:
        blocks[:, offset + 1] &= 0xBF
    values = gguf.quants.dequantize(blocks, kind).astype("<f4")
    hashes = [xxhash.xxh3_64_intdigest(values.tobytes()), 0]
    centered = (pseudo_random(BLOCKS * elements) >> 8).astype(numpy.float32) / 2**24 - numpy.float32(0.5)
    try:
        hashes[1] = xxhash.xxh3_64_intdigest(gguf.quants.quantize(centered, kind).tobytes())
    except NotImplementedError:
        pass
    print(f'    {{"{name}", {int(kind)}, {{{halves[0]}, {halves[-1]}}}, 0x{hashes[0]:016X}, 0x{hashes[1]:016X}}},')
