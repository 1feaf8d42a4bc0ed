"""Published implementations with the arguments of layers of the standard library, for compare.sh."""
import importlib.util
import os
import sys

import torch
from torch.nn import functional as F


def load_naive(name):
    """A file of the package fla-core, without the package: its other files need a GPU compiler."""
    for folder in sys.path:
        path = os.path.join(folder, "fla", "ops", name, "naive.py")
        if os.path.exists(path):
            spec = importlib.util.spec_from_file_location(f"fla_naive_{name}", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise ImportError(f"fla-core is not installed: no fla/ops/{name}/naive.py")


def heads(x, weight):
    """x[s,d] * weight[d,h,e], summed over d."""
    return torch.einsum("bsd,dhe->bshe", x, weight)


def rms_norm(x, weight, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def gated_delta(x, query, key, value, share, fade, gate, output, rate, shift, out_norm_weight, recurrence=None):
    """The token mixer of Qwen3-Next around the naive recurrence of flash-linear-attention."""
    recurrence = recurrence or load_naive("gated_delta_rule").naive_recurrent_gated_delta_rule
    q, k, v = heads(x, query), heads(x, key), heads(x, value)
    q, k = (t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6) for t in (q, k))
    beta = torch.sigmoid(x @ share)
    g = -rate.exp() * F.softplus((x @ fade + shift).float())
    o, _ = recurrence(q, k, v, beta, g)
    o = rms_norm(o.to(x.dtype), out_norm_weight)
    return torch.einsum("bshc,hcd->bsd", F.silu(heads(x, gate)) * o, output)


def delta_rule(q, k, v, beta):
    recurrence = load_naive("delta_rule").delta_rule_recurrence
    o, _ = recurrence(*(t.transpose(1, 2) for t in (q, k, v)), beta.transpose(1, 2))
    return o.transpose(1, 2)


def rotated(x, base=10000.0):
    """RoPE of pairs (i, i + e/2), as in Llama."""
    s, e = x.shape[1], x.shape[-1]
    angle = torch.arange(s, dtype=torch.float64)[:, None] * base ** (-torch.arange(0, e, 2, dtype=torch.float64) / e)
    cos, sin = (t.to(x.dtype)[None, :, None, :] for t in (angle.cos(), angle.sin()))
    a, b = x[..., : e // 2], x[..., e // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(x, query, key, value, output):
    """Grouped-query attention by scaled_dot_product_attention."""
    q, k, v = rotated(heads(x, query)), rotated(heads(x, key)), heads(x, value)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return torch.einsum("bhsc,hcd->bsd", o, output)


def mixtral(x, router, expert_up, expert_gate, expert_down, top_k, aux_loss_coef):
    """MixtralSparseMoeBlock of transformers, and its load-balancing loss."""
    from transformers.models.mixtral import modeling_mixtral as source

    d, n = router.shape
    config = source.MixtralConfig(hidden_size=d, intermediate_size=expert_up.shape[2], num_local_experts=n,
                                  num_experts_per_tok=top_k)
    with torch.device("meta"):
        block = source.MixtralSparseMoeBlock(config)
    weights = {
        "gate.weight": router.T,
        "experts.gate_up_proj": torch.cat([expert_gate, expert_up], 2).transpose(1, 2),
        "experts.down_proj": expert_down.transpose(1, 2),
    }
    y = torch.func.functional_call(block, weights, (x,))
    logits = (x @ router).reshape(-1, n)
    # The loss of transformers counts every selection, that of the spec each token once.
    balance = aux_loss_coef * source.load_balancing_loss_func((logits,), n, top_k) / top_k
    return y, balance


class SwiGLU(torch.nn.Module):
    """A module whose parameters have the names and the layout of the spec."""

    def __init__(self, hidden_dim, d=16):
        super().__init__()
        self.up = torch.nn.Parameter(torch.zeros(d, hidden_dim))
        self.gate = torch.nn.Parameter(torch.zeros(d, hidden_dim))
        self.down = torch.nn.Parameter(torch.zeros(hidden_dim, d))

    def forward(self, x):
        return (F.silu(x @ self.gate) * (x @ self.up)) @ self.down
