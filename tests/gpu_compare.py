"""Two safetensors files of `moec run` compared, tensor by tensor: gpu_compare.py DEFINED DEVICE LIMIT LIMIT_OF_GRADIENTS
prints the largest relative difference and exits with 1 when it is over its limit.
gpu_compare.py --row NAME FILE prints the JSON of `moec bench` as a row of a table."""

import array
import json
import math
import struct
import sys


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    found = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = array.array("f", data[8 + length + begin : 8 + length + end])
    return found


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))


def compare(defined, device, limit, gradient_limit):
    wanted, given = tensors(defined), tensors(device)
    if wanted.keys() != given.keys():
        print("the tensors are not the same ones")
        return 1
    # A gradient that is zero but for rounding is measured against the whole; so are all of them where operands are rounded
    # to bf16, because a choice that falls differently gives the few tensors behind it other gradients. For the same reason
    # the logits, a few rows of which then differ, have five times the room of the loss.
    rounded = limit > 1e-3
    whole = norm(norm(values) for name, values in wanted.items() if name.startswith("gradient:"))
    worst, over = ("", 0.0), False
    for name, values in wanted.items():
        gradient = name.startswith("gradient:")
        least = (1 if rounded else 1e-3) * whole if gradient else 1e-20
        scale = max(norm(values), least)
        off = norm(x - y for x, y in zip(values, given[name])) / scale
        if not off <= worst[1]:
            worst = (name, off)
        room = gradient_limit if gradient else 5 * limit if rounded and name == "logits" else limit
        over = over or not off <= room
    print(f"{worst[1]:.1e} ({worst[0]})")
    return int(over)


def row(name, path):
    with open(path) as file:
        found = json.load(file)
    decoding = found["graph"] == "decode"
    share = found.get("share_of_bandwidth" if decoding else "share_of_floor", math.nan)
    ceiling = (
        f"{found.get('ceiling_gbytes_per_second', math.nan):.0f} GB/s"
        if decoding
        else f"{found.get('ceiling_gflops', math.nan) / 1000:.0f} TFLOP/s"
    )
    start = "" if decoding else f"{found['first_step_cold_seconds']:.1f} s, {found['first_step_warm_seconds']:.2f} s"
    print(f"| {name} | {found['tokens_per_second']:.0f} | {100 * share:.0f} % | {ceiling} | {start} |")
    return 0


if sys.argv[1] == "--row":
    sys.exit(row(sys.argv[2], sys.argv[3]))
sys.exit(compare(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))
