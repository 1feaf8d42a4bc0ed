"""PyTorch training on the CPU. WORK has our weights of a GPT-2, with or without routed experts, a text and our loss on it:

peers.py WORK agrees f32|bf16            compares the loss with that of PyTorch with the same weights
peers.py WORK f32|bf16 BATCH WAY         prints tokens per second of training steps of that shape; the ways:
                                         eager, compiled; with experts loop (over them), grouped (torch._grouped_mm)"""

import contextlib
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))

import torch
from torch import nn
from torch.nn import functional as F

import gpu_torch

WORK, BALANCE = sys.argv[1], 0.01  # weight of the load-balancing loss
TOP = {8: 2, 64: 8}  # experts per token, by number of experts
SECONDS = 8


class Experts(nn.Module):
    """Softmax over all experts, probabilities without renormalization, the load-balancing loss of Fedus et al. 2021."""

    def __init__(self, ours):
        super().__init__()
        self.router, self.up, self.down = (nn.Parameter(ours["ffn." + x].clone()) for x in ("router", "expert.up", "expert.down"))
        self.count, self.way = self.up.shape[0], "loop"
        self.top = TOP[self.count]

    def loop(self, x, weight, chosen):
        y = torch.zeros_like(x)
        # unbind: the backward pass of up[i] would create a whole tensor of zeros per expert
        for i, (up, down) in enumerate(zip(self.up.unbind(), self.down.unbind())):
            row, position = (chosen == i).nonzero(as_tuple=True)
            h = F.gelu(x[row] @ up, approximate="tanh") @ down
            y.index_add_(0, row, (h * weight[row, position, None]).to(y.dtype))
        return y

    def grouped(self, x, weight, chosen):
        order = chosen.flatten().argsort(stable=True)
        ends = chosen.flatten().bincount(minlength=self.count).cumsum(0).to(torch.int32)
        rows = order // self.top
        up, down = self.up.bfloat16(), self.down.bfloat16()
        h = F.gelu(torch._grouped_mm(x[rows].bfloat16(), up, offs=ends), approximate="tanh")
        h = torch._grouped_mm(h, down, offs=ends) * weight.flatten()[order, None]
        return torch.zeros_like(x).index_add_(0, rows, h.to(x.dtype))

    def forward(self, x):
        rows = x.flatten(0, 1)
        p = (rows @ self.router).float().softmax(-1)
        weight, chosen = p.topk(self.top, -1)
        load = chosen.flatten().bincount(minlength=self.count) / chosen.numel()
        self.balance = BALANCE * self.count * (load * p.mean(0)).sum()
        return getattr(self, self.way)(rows, weight, chosen).reshape(x.shape)


def our_model():
    routed = "block.0.ffn.router" in gpu_torch.tensors(WORK + "/weights")
    return gpu_torch.our_model(Experts if routed else None)


def experts_of(model):
    return [block.ffn for block in model.blocks if isinstance(block.ffn, Experts)]


def rounding(precision):
    return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def agrees(precision):
    with open(WORK + "/text", "rb") as file:
        text = file.read()
    model = our_model()
    context = model.position.weight.shape[0]
    windows = torch.tensor(list(text[: len(text) // (context + 1) * (context + 1)])).reshape(-1, context + 1)
    ours = gpu_torch.tensors(WORK + "/loss")["loss"].item()
    for way in ("loop", "grouped") if experts_of(model) and precision == "bf16" else ("loop",):
        for experts in experts_of(model):
            experts.way = way
        with torch.no_grad(), rounding(precision):
            expected = model(windows[:, :-1], windows[:, 1:]).item()  # like our loss, without the load-balancing loss
        print(f"{precision}: loss {expected:.6f}, ours {ours:.6f}", file=sys.stderr)
        if abs(expected - ours) > (2e-2 if precision == "bf16" else 1e-4) * abs(ours):
            return False
    return True


def speed(precision, batch, way):
    torch.manual_seed(1)
    model = our_model()
    for experts in experts_of(model):
        experts.way = way
    vocabulary, context = model.token.weight.shape[0], model.position.weight.shape[0]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    run = torch.compile(model) if way == "compiled" else model
    tokens = torch.randint(vocabulary, (batch, context + 1))
    found, began = [], 0
    for step in range(200):
        before = time.perf_counter()
        if step == 2:
            began = before
        with rounding(precision):
            loss = run(tokens[:, :-1], tokens[:, 1:]) + sum(experts.balance for experts in experts_of(model))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= 2:
            found.append(time.perf_counter() - before)
        if len(found) >= 5 and time.perf_counter() - began > SECONDS:
            break
    return batch * context / statistics.median(found)


if __name__ == "__main__":
    if sys.argv[2] == "agrees":
        sys.exit(0 if agrees(sys.argv[3]) else "the losses differ: no speed is printed")
    print(speed(sys.argv[2], int(sys.argv[3]), sys.argv[4]))
