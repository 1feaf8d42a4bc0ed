"""PyTorch beside us on the processor: peers.py WORK agrees f32|bf16 holds our loss in WORK against its own from our weights;
peers.py WORK f32|bf16 eager|compiled prints tokens per second of training steps."""

import contextlib
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import torch
from torch import nn

import gpu_torch

BATCH, CONTEXT, VOCABULARY, WIDTH, LAYERS = 8, 256, 256, 384, 6
SECONDS = 8


def rounding(precision):
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def agrees(precision):
    with open(sys.argv[1] + "/text", "rb") as file:
        text = file.read()
    model = gpu_torch.our_model()
    windows = torch.tensor(list(text[: len(text) // (CONTEXT + 1) * (CONTEXT + 1)])).reshape(-1, CONTEXT + 1)
    with torch.no_grad(), rounding(precision):
        theirs = model(windows[:, :-1], windows[:, 1:]).item()
    ours = gpu_torch.tensors(sys.argv[1] + "/loss")["loss"].item()
    print(f"{precision}: loss {theirs:.6f}, ours {ours:.6f}", flush=True)
    return abs(theirs - ours) <= (2e-2 if precision == "bf16" else 1e-4) * abs(ours)


def speed(precision, way):
    torch.manual_seed(1)
    model = gpu_torch.Model(WIDTH, WIDTH // 64, LAYERS, VOCABULARY, CONTEXT)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    run = torch.compile(model) if way == "compiled" else model
    tokens = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
    found, began = [], 0
    for step in range(200):
        before = time.perf_counter()
        if step == 2:
            began = before
        with rounding(precision):
            loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= 2:
            found.append(time.perf_counter() - before)
        if len(found) >= 5 and time.perf_counter() - began > SECONDS:
            break
    return BATCH * CONTEXT / statistics.median(found)


if __name__ == "__main__":
    if sys.argv[2] == "agrees":
        sys.exit(0 if agrees(sys.argv[3]) else "the losses differ: no speed is told")
    print(speed(sys.argv[2], sys.argv[3]))
