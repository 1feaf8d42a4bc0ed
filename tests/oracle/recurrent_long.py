"""python3 tests/oracle/recurrent_long.py [POSITIONS [forward]]: compares compiled scan chunks over 4,096 or POSITIONS positions
with recurrent.py, position by position in double precision: logits within 1e-5, gradients by name within 1e-4.

The decay of the heads ranges from almost 1 to 1e-4 per position, so a chunk of the fastest head forgets its initial state. Uses
the `moec` on the path.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

from published import Weights, forward, losses, tokens
from rows import hybrid

ROWS = ("retnet_small", "gated_delta_small", "mamba2_small")
LIMITS = {"logits": 1e-5, "gradient": 1e-4}
SPEC = pathlib.Path(__file__).resolve().parents[2] / "models/hybrid.moe"


class Faded(Weights):
    """exp(-exp(rate) softplus(x W + shift)) from 1 - 1e-4 to 1e-4, with softplus near its shift."""

    def get(self, name, *shape):
        if name.endswith((".rate", "attention.shift")) and name not in self.all:
            slow, fast = math.log(math.expm1(1e-4)), math.log(math.expm1(9.2))
            value = torch.linspace(slow, fast, shape[0]).double() if name.endswith("shift") else torch.zeros(shape).double()
            self.all[name] = value.float().double().requires_grad_()
        return super().get(name, *shape)


def write(path, tensors):
    header, blob = {}, b""
    for name, value in tensors.items():
        data = value.detach().float().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + blob)


def read(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    data = memoryview(raw)[8 + size :]
    return {name: torch.from_numpy(np.frombuffer(data[slice(*h["data_offsets"])], np.float32).copy()).double().view(h["shape"])
            for name, h in header.items()}


def compiled(name, folder, w, window, positions, want):
    write(folder / "weights.safetensors", w.all)
    (folder / "text").write_bytes(bytes(window))
    subprocess.run(["moec", "forward", f"{SPEC}:{name}", "--weights", folder / "weights.safetensors", "--input", folder / "text",
                    "--outputs", want, "--out", folder / "out.safetensors", "-c", str(positions), "--set", "train.batch_size=1"],
                   check=True, stdout=subprocess.DEVNULL)
    return read(folder / "out.safetensors")


def difference(a, b):
    return ((a - b).norm() / b.norm().clamp_min(1e-30)).item()


def compare(name, folder, positions, gradients):
    row, w = hybrid()[name], Faded()
    window = tokens(positions + 1)
    given = torch.tensor(window)[None]
    with torch.set_grad_enabled(gradients):
        logits, log = forward(w, row, given)
        total = losses(row, logits, log, given)["total"]
    got = compiled(name, folder, w, window, positions, "logits,grads" if gradients else "logits")
    found = {"logits": difference(got["logits"].view(logits.shape), logits)}
    if gradients:
        total.backward()
        for path, p in w.all.items():
            found["gradient:" + path] = difference(got["gradient:" + path].view(p.shape), p.grad)
    return found


def main():
    positions = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    gradients, ok = len(sys.argv) < 3, True
    for name in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            found = compare(name, pathlib.Path(folder), positions, gradients)
        for kind, limit in LIMITS.items():
            of_kind = {key: value for key, value in found.items() if key.startswith(kind)}
            if of_kind:
                worst = max(of_kind, key=of_kind.get)
                ok &= of_kind[worst] <= limit
                print(f"{name} at {positions} places: {kind} differ by {of_kind[worst]:.1e} at most ({worst}), {limit:g} allowed", flush=True)
    sys.exit(not ok)


main()
