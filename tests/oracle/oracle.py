"""python3 tests/oracle/oracle.py [--write] [FAMILY...]: computes the numbers of tests/oracle/expected/FAMILY.txt for
tests/unit/test_oracle.c and compares them with the files; --write writes the files.

Of every tensor: its name, number of axes and of elements, norm, a fixed random projection, and three elements. `gradient:` is the
gradient of the loss with its auxiliary terms. `step:` is the weight after ten steps of AdamW, or of the optimizer of the row, on
one sequence (on both images). `decode` are the logits of decoding.
"""
import math
import os
import sys

import torch

from optimizers import OPTIMIZERS
from published import Weights, flow_matching, forward, losses, number, tokens, velocity
from recurrent import is_factor
from rows import FAMILIES

BATCH, CONTEXT, STEPS = 2, 24, 10
TOLERANCE = 1e-8  # other PyTorch versions and CPUs round sums differently; nine digits are written


def line(name, tensor):
    flat = tensor.detach().flatten()
    n = flat.numel()
    signs = number("projection", (n, 1)).flatten() * 4
    indices = [n * part // 100 for part in (13, 47, 89)]
    values = [flat.norm().item(), (flat * signs).sum().item()] + [flat[i].item() for i in indices]
    return f"tensor {name} {tensor.dim()} {n} " + " ".join(f"{v:.9g}" for v in values)


def is_matrix(row, name, p):
    """True for weights of matrix products. Gates without an input and recurrence factors multiply single elements."""
    alone = (row.get("gate") or {}).get("reads") == "nothing" and name.endswith("sdpa_gate.weight")
    return p.dim() >= 2 and not alone and not is_factor(name, row.get("parts", [None]))


def warmed(step, warmup=20):
    """All ten steps are within the warm-up."""
    return (step + 1) / warmup


def settings(row, name):
    """Optimizer settings of one weight."""
    if row["settings"]:
        return row["settings"](name)
    return dict(lr=row["lr"], decay=row["decay"], eps=1e-8, betas=(0.9, 0.95))


def examples(row):
    """Inputs of a diffusion transformer."""
    shape = (BATCH, row["patches"], row["numbers"])
    time = 0.5 + number("time", (BATCH, 1))
    label = torch.tensor([(3 * b + 1) % row["classes"] for b in range(BATCH)])
    return dict(image=4 * number("image", shape), noise=4 * number("noise", shape), time=time, label=label)


def run(w, row, given):
    """The results of a row for its inputs: name of the output, output, scalars."""
    if "patches" in row:
        out, log = velocity(w, row, given)
        return "velocity", out, flow_matching(row, out, log, given)
    out, log = forward(w, row, given)
    return "logits", out, losses(row, out, log, given)


def whole(row, given):
    """Ten steps of an optimizer that updates matrices: gradient clipped to norm 1."""
    w = Weights()
    run(w, row, given)
    kept, seen = {name: {} for name in w.all}, []
    for step in range(STEPS):
        scalars = run(w, row, given)[2]
        grads = torch.autograd.grad(scalars["total"], list(w.all.values()))
        seen.append(scalars["loss"].item())
        clip = min(1.0, 1.0 / math.sqrt(sum(g.pow(2).sum().item() for g in grads)))
        for (name, p), g in zip(w.all.items(), grads):
            OPTIMIZERS[row["optimizer"]](name, p, g * clip, step + 1, kept[name], row["lr"] * warmed(step))
    return w, seen


def adamw(row, given):
    """Ten steps: gradient clipped to norm 1, decay of matrices times the learning rate."""
    w = Weights()
    run(w, row, given)
    moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in w.all.items()}
    seen = []
    for step in range(STEPS):
        scalars = run(w, row, given)[2]
        grads = torch.autograd.grad(scalars["total"], list(w.all.values()))
        seen.append(scalars["loss"].item())
        norm = math.sqrt(sum(g.pow(2).sum().item() for g in grads))
        clip = min(1.0, 1.0 / norm)
        for (name, p), g in zip(w.all.items(), grads):
            m, v = moments[name]
            own = settings(row, name)
            first, second = own["betas"]
            g = g * clip
            m.mul_(first).add_((1 - first) * g)
            v.mul_(second).add_((1 - second) * g * g)
            decay = own["decay"] if is_matrix(row, name, p) else 0.0
            update = (m / (1 - first ** (step + 1))) / ((v / (1 - second ** (step + 1))).sqrt() + own["eps"])
            p.data.sub_(own["lr"] * warmed(step) * (update + decay * p.data))
    return w, seen


def describe(name, row):
    images = "patches" in row
    given = examples(row) if images else torch.tensor(tokens(BATCH * (CONTEXT + 1))).reshape(BATCH, CONTEXT + 1)
    w = Weights()
    what, output, scalars = run(w, row, given)
    scalars["total"].backward()
    out = [f"model {name}"] + [f"scalar {key} {value.item():.10g}" for key, value in scalars.items()]
    out.append(line(what, output))
    if not images and row["ffn"].get("choice") != "expert":
        with torch.no_grad():
            out.append(line("decode", forward(w, row, given[:1], decoding=True)[0]))
    for key, p in w.all.items():
        out.append(line("gradient:" + key, p.grad))
    steps = whole if row.get("optimizer") else adamw
    trained, seen = steps(row, given if images else given[:1].repeat(BATCH, 1))
    out += [f"scalar step{i} {value:.10g}" for i, value in enumerate(seen)]
    out += [line("step:" + key, p) for key, p in trained.all.items()]
    return out


def apart(committed, computed):
    """Difference of two lines relative to the norm of the tensor or to the scalar; infinite for different names."""
    old, new = committed.split(), computed.split()
    names = 4 if old[0] == "tensor" else 2
    if old[:names] != new[:names] or len(old) != len(new):
        return math.inf
    if old[0] not in ("tensor", "scalar"):
        return 0.0
    pairs = [(float(a), float(b)) for a, b in zip(old[names:], new[names:])]
    scale = max(abs(pairs[0][0]), 1e-12)
    return max(abs(a - b) for a, b in pairs) / scale


def verdict(family, path, text):
    """Compares with the committed file and prints the result; True if the file is correct."""
    with open(path) as file:
        committed = file.read().splitlines()
    if committed == text:
        print(f"{family}: {len(text)} lines, identical to {path}")
        return True
    if len(committed) != len(text):
        print(f"{family}: FAILED: {len(text)} lines were computed, {path} has {len(committed)}")
        return False
    gaps = [apart(*lines) for lines in zip(committed, text)]
    worst = max(range(len(gaps)), key=gaps.__getitem__)
    ok = gaps[worst] <= TOLERANCE
    print(f"{family}: {'within' if ok else 'FAILED: beyond'} {TOLERANCE:g} of {path}; largest difference {gaps[worst]:.2g}, at")
    print(f"    committed {committed[worst]}\n    computed  {text[worst]}")
    return ok


def main():
    torch.manual_seed(0)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected")
    os.makedirs(folder, exist_ok=True)
    write, ok = "--write" in sys.argv, True
    for family in [name for name in sys.argv[1:] if name != "--write"] or FAMILIES:
        text = [f"batch {BATCH}", f"context {CONTEXT}"]
        for name, row in FAMILIES[family]().items():
            text += describe(name, row)
        path = os.path.join(folder, family + ".txt")
        if write:
            with open(path, "w") as file:
                file.write("\n".join(text) + "\n")
        else:
            ok = verdict(family, os.path.relpath(path), text) and ok
    sys.exit(0 if ok else 1)


main()
