"""Attention in PyTorch, for `moec verify attention --against examples/other_code.py:attention`."""
import torch
from torch.nn import functional as F


def rotated(x, base=10000.0):
    """RoPE of the pairs (i, i + e/2)."""
    s, e = x.shape[1], x.shape[-1]
    angle = torch.arange(s)[:, None] * base ** (-torch.arange(0, e, 2) / e)
    cos, sin = (t.to(x.dtype)[None, :, None, :] for t in (angle.cos(), angle.sin()))
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(x, query, key, value, output):
    """x [batch,s,d]; query [d,h,e]; key and value with fewer heads; output [h,e,d]."""
    q, k, v = (torch.einsum("bsd,dhe->bshe", x, weight) for weight in (query, key, value))
    q, k, v = (t.transpose(1, 2) for t in (rotated(q), rotated(k), v))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return torch.einsum("bhse,hed->bsd", o, output)
