"""Faults of published kernels and models, for compare.sh: each must be found. FAULT=none is the same code without it."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch
from torch.nn import functional as F

import published

FAULT = os.environ.get("FAULT", "none")


def fault(name):
    return FAULT == name


def by_head(t):
    return t.transpose(1, 2)


class Backward(torch.autograd.Function):
    """The identity, whose backward pass multiplies by a factor."""

    @staticmethod
    def forward(context, x, factor):
        context.factor = factor
        return x.clone()

    @staticmethod
    def backward(context, dy):
        return dy * context.factor, None


def weighted(q, k, v, seen, scale):
    """Attention with a mask [.., s, t] of what is seen."""
    score = q @ k.transpose(-1, -2)
    if not fault("missing_scale"):
        score = score * scale
    score = score.masked_fill(~seen, float("-inf"))
    if fault("no_maximum"):
        p = score.exp()
        return (p / p.sum(-1, keepdim=True)) @ v
    return score.softmax(-1) @ v


def window(q, k, v):
    """Grouped queries in a sliding window of 8."""
    q, k, v = by_head(q), by_head(k), by_head(v)
    groups, n = q.shape[1] // k.shape[1], q.shape[2]
    repeated = (lambda t: t.repeat(1, groups, 1, 1)) if fault("head_mapping") else lambda t: t.repeat_interleave(groups, 1)
    s, t = torch.arange(n)[:, None], torch.arange(n)[None, :]
    last = s + 1 if fault("mask_off_by_one") else s
    width = 9 if fault("window_off_by_one") else 8
    seen = (t <= last) & (s - t < width)
    return by_head(weighted(q, repeated(k), repeated(v), seen, q.shape[-1] ** -0.5))


def packed(q, k, v, ids):
    n = q.shape[1]
    seen = torch.ones(n, n, dtype=torch.bool).tril()[None]
    if not fault("documents_mixed"):
        seen = seen & (ids[:, :, None] == ids[:, None, :])
    return by_head(weighted(by_head(q), by_head(k), by_head(v), seen[:, None], q.shape[-1] ** -0.5))


kept = {}


def linear(q, k, v, ids):
    """Linear attention, the state of which begins anew with each document."""
    shape, dtype = (q.shape[0], q.shape[2], q.shape[3], v.shape[3]), v.dtype
    state = torch.zeros(shape, dtype=dtype)
    if fault("state_of_last_call"):
        state = kept.get((shape, dtype), state)
    out = []
    for s in range(q.shape[1]):
        if s > 0 and not fault("stale_state"):
            state = state * (ids[:, s] == ids[:, s - 1]).to(v.dtype)[:, None, None, None]
        state = state + k[:, s, :, :, None] * v[:, s, :, None, :]
        out.append(torch.einsum("bhe,bhec->bhc", q[:, s], state))
    kept[shape, dtype] = state.detach()
    return torch.stack(out, 1)


def delta_rule(q, k, v, beta):
    """The delta rule; its blocks of 16 positions are a loop of a kernel."""
    if fault("missing_gradient"):
        beta = beta.detach()
    n, state, out = q.shape[1], q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3]), []
    for s in range(n // 16 * 16 if fault("last_block") and n > 16 else n):
        if fault("bf16_inside"):
            state = state.to(torch.bfloat16).to(q.dtype)
        wrong = v[:, s] - torch.einsum("bhe,bhec->bhc", k[:, s], state)
        state = state + torch.einsum("bh,bhe,bhc->bhec", beta[:, s], k[:, s], wrong)
        out.append(torch.einsum("bhe,bhec->bhc", q[:, s], state) * q.shape[-1] ** -0.5)
    return torch.cat([torch.stack(out, 1), v.new_zeros(v.shape[0], n - len(out), *v.shape[2:])], 1)


def row_sum(x):
    if not fault("bf16_sum"):
        return x.float().sum(-1).to(x.dtype) if x.dtype == torch.bfloat16 else x.sum(-1)
    total = torch.zeros_like(x[..., 0])
    for part in x.unbind(-1):
        total = total + part
    return total


def rms_norm(x, weight):
    mean = (x * x).mean(-1, keepdim=True)
    return x * (1 / (mean.sqrt() + 1e-6) if fault("eps_outside") else torch.rsqrt(mean + 1e-6)) * weight


def moe(x, router, expert_up, expert_gate, expert_down, top_k, aux_loss_coef):
    """Mixture of experts whose weights are normalized over the selected ones, with its load-balancing loss."""
    rows, n = x.reshape(-1, x.shape[-1]), router.shape[1]
    p = (rows @ router).float().softmax(-1)
    weight, chosen = p.topk(top_k, -1)
    if not fault("not_normalized"):
        weight = weight / weight.sum(-1, keepdim=True)
    y = torch.zeros_like(rows)
    for expert in range(n):
        token, place = torch.where(chosen == expert)
        if fault("dropped_token"):
            token, place = (t[: max(1, 2 * len(rows) * top_k // n)] for t in (token, place))
        hidden = F.silu(rows[token] @ expert_gate[expert]) * (rows[token] @ expert_up[expert])
        part = (hidden @ expert_down[expert]) * weight[token, place, None].to(x.dtype)
        if fault("lost_update") and torch.rand(()) < 0.02:
            continue  # two threads add to the same rows, and one of the sums is lost
        y = y.index_add(0, token, part)
    load = F.one_hot(chosen, n).sum((0, 1)) / chosen.numel()
    balance = aux_loss_coef * n * (load * p.mean(0)).sum()
    if fault("aux_gradient"):
        balance = Backward.apply(balance, 1 / n)
    return y.reshape(x.shape), balance
