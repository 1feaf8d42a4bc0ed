"""Recurrences in plain PyTorch, position by position, from the formulas of their papers; simple, in double precision.

    lstm              Hochreiter and Schmidhuber 1997, Gers et al. 2000
    min_gru           Feng et al. 2024
    linear_attention  Katharopoulos et al. 2020
    retention         Sun et al. 2023
    gated_delta       Yang et al. 2024, with Qwen3-Next's convolutions, norms and gate
    mamba2            Dao and Gu 2024
    gla               Yang et al. 2023
    rwkv7             Peng et al. 2025, without the values of the first layer
"""
import math

import torch
import torch.nn.functional as F


# By the kind of the layer.
FACTORS = {"lstm": ["bias"], "mamba2": ["weight"], "gla": ["shift"],
           "rwkv7": ["fade", "share", "removed", "replaced", "bonus", "weight", "bias"]}


def is_factor(name, parts):
    """Factors and shifts with several axes, which are not matrices. parts: mixers of the layers in turn."""
    if name.endswith(("_conv.weight", "_conv.shift")):
        return True
    path = name.split(".")
    part = parts[int(path[1]) % len(parts)] if path[0] == "block" else None
    return bool(part) and path[2] == "attention" and path[-1] in FACTORS.get(part["kind"], []) and len(path) == 4


def heads(w, path, name, x, h, e):
    return torch.einsum("btd,dhe->bthe", x, w.get(f"{path}.{name}", x.shape[-1], h, e))


def conv(w, path, x, bias=False, width=4):
    """y[t] = silu(sum_i weight[i] x[t - i]), each channel separately."""
    weight = w.get(path + ".weight", width, *x.shape[2:])
    y = torch.zeros_like(x)
    for i in range(min(width, x.shape[1])):
        y = y + weight[i] * F.pad(x, (0, 0, 0, 0, i, 0))[:, : x.shape[1]]
    if bias:
        y = y + w.get(path + ".shift", *x.shape[2:])
    return F.silu(y)


def lstm(w, path, spec, x):
    batch, positions, d = x.shape
    inner, state = w.get(path + ".input", d, 4, d), w.get(path + ".state", d, 4, d)
    bias = w.get(path + ".bias", 4, d)
    h, c, out = torch.zeros(batch, d, dtype=x.dtype), torch.zeros(batch, d, dtype=x.dtype), []
    for t in range(positions):
        z = torch.einsum("bd,dnj->bnj", x[:, t], inner) + torch.einsum("bd,dnj->bnj", h, state) + bias
        i, f, o, new = z[:, 0].sigmoid(), z[:, 1].sigmoid(), z[:, 2].sigmoid(), z[:, 3].tanh()
        c = f * c + i * new
        h = o * c.tanh()
        out.append(h)
    return torch.stack(out, 1)


def min_gru(w, path, spec, x):
    d = x.shape[-1]
    z = (x @ w.get(path + ".gate", d, d)).sigmoid()
    new = x @ w.get(path + ".candidate", d, d)
    h, out = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = (1 - z[:, t]) * h + z[:, t] * new[:, t]
        out.append(h)
    return torch.stack(out, 1) @ w.get(path + ".output", d, d)


def fading_memory(q, k, v, keep):
    """S = keep S + k v^T, q S; q, k: batch, position, head, e; v: .., c; keep: batch, position, head, e or 1."""
    S = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], dtype=q.dtype)
    out = []
    for t in range(q.shape[1]):
        S = keep[:, t, :, :, None] * S + k[:, t, :, :, None] * v[:, t, :, None, :]
        out.append(torch.einsum("bhe,bhec->bhc", q[:, t], S))
    return torch.stack(out, 1)


def project(w, path, o, d):
    return torch.einsum("bthc,hcd->btd", o, w.get(path + ".output", o.shape[2], o.shape[3], d))


def linear_attention(w, path, spec, x):
    h, e = spec["heads"], x.shape[-1] // spec["heads"]
    q = F.elu(heads(w, path, "query", x, h, e)) + 1
    k = F.elu(heads(w, path, "key", x, h, e)) + 1
    v = heads(w, path, "value", x, h, e)
    ones = torch.ones(x.shape[0], x.shape[1], h, 1, dtype=x.dtype)
    total = torch.einsum("bthe,bthe->bth", q, k.cumsum(1)) + 1e-6
    return project(w, path, fading_memory(q, k, v, ones) / total[..., None], x.shape[-1])


def retention(w, path, spec, x, rotate):
    h, e = spec["heads"], x.shape[-1] // spec["heads"]
    q = rotate(heads(w, path, "query", x, h, e), 10000)
    k = rotate(heads(w, path, "key", x, h, e) / e**0.5, 10000)
    v = heads(w, path, "value", x, h, 2 * e)
    gamma = 1 - 2.0 ** (-5 - torch.arange(h, dtype=x.dtype))
    o = fading_memory(q, k, v, gamma[:, None].expand(x.shape[0], x.shape[1], h, 1))
    o = o / torch.sqrt(o.pow(2).mean(-1, keepdim=True) + 1e-6)
    return project(w, path, F.silu(heads(w, path, "gate", x, h, 2 * e)) * o, x.shape[-1])


def decay(w, path, name, x, h):
    """-exp(rate) softplus(x W + shift), and the softplus."""
    step = F.softplus(x @ w.get(f"{path}.{name}", x.shape[-1], h) + w.get(path + ".shift", h))
    return -w.get(path + ".rate", h).exp() * step, step


def gated_delta(w, path, spec, x):
    hk, hv, e, d = spec["k"], spec["v"], spec["width"], x.shape[-1]
    q = conv(w, path + ".query_conv", heads(w, path, "query", x, hk, e))
    k = conv(w, path + ".key_conv", heads(w, path, "key", x, hk, e))
    v = conv(w, path + ".value_conv", heads(w, path, "value", x, hv, e))
    q = q / torch.sqrt(q.pow(2).sum(-1, keepdim=True) + 1e-6) / e**0.5
    k = k / torch.sqrt(k.pow(2).sum(-1, keepdim=True) + 1e-6)
    q, k = q.repeat_interleave(hv // hk, 2), k.repeat_interleave(hv // hk, 2)
    beta = (x @ w.get(path + ".share", d, hv)).sigmoid()
    keep = decay(w, path, "fade", x, hv)[0].exp()
    S, out = torch.zeros(x.shape[0], hv, e, e, dtype=x.dtype), []
    for t in range(x.shape[1]):
        S = keep[:, t, :, None, None] * S
        wrong = v[:, t] - torch.einsum("bhe,bhec->bhc", k[:, t], S)
        S = S + beta[:, t, :, None, None] * k[:, t, :, :, None] * wrong[:, :, None, :]
        out.append(torch.einsum("bhe,bhec->bhc", q[:, t], S))
    o = torch.stack(out, 1)
    o = o / torch.sqrt(o.pow(2).mean(-1, keepdim=True) + 1e-6) * w.get(path + ".out_norm.weight", e)
    return project(w, path, o * F.silu(heads(w, path, "gate", x, hv, e)), d)


def mamba2(w, path, spec, x):
    h, n, d = spec["heads"], spec["states"], x.shape[-1]
    c = 2 * d // h
    v = conv(w, path + ".value_conv", heads(w, path, "value", x, h, c), bias=True)
    B = conv(w, path + ".into_conv", heads(w, path, "into", x, 1, n), bias=True)
    C = conv(w, path + ".out_conv", heads(w, path, "out_of", x, 1, n), bias=True)
    fade, step = decay(w, path, "time", x, h)
    B, C = B.expand(-1, -1, h, -1), C.expand(-1, -1, h, -1)
    o = fading_memory(C, B * step[..., None], v, fade.exp()[..., None]) + w.get(path + ".skip", h)[:, None] * v
    g = o * F.silu(heads(w, path, "gate", x, h, c))
    g = g / torch.sqrt(g.pow(2).mean((-1, -2), keepdim=True) + 1e-5) * w.get(path + ".weight", h, c)
    return project(w, path, g, d)


def low_rank(w, path, x, *to, act=lambda z: z, rank):
    narrow = act(x @ w.get(path + ".narrow", x.shape[-1], rank))
    return torch.einsum("btr,rhe->bthe", narrow, w.get(path + ".wide", rank, *to))


def gla(w, path, spec, x):
    h, rank, d = spec["heads"], spec["rank"], x.shape[-1]
    e, c = d // h // 2, d // h
    q, k, v = heads(w, path, "query", x, h, e) / e**0.5, heads(w, path, "key", x, h, e), heads(w, path, "value", x, h, c)
    logits = low_rank(w, path, x, h, e, rank=rank) + w.get(path + ".shift", h, e)
    o = fading_memory(q, k, v, logits.sigmoid() ** (1 / 16))
    o = o / torch.sqrt(o.pow(2).mean(-1, keepdim=True) + 1e-6) * w.get(path + ".out_norm.weight", c)
    return project(w, path, o * F.silu(heads(w, path, "gate", x, h, c)), d)


def rwkv7(w, path, spec, x):
    h, rank, d = spec["heads"], spec["rank"], x.shape[-1]
    e = d // h
    past = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)

    def shifted(name):
        return x + (past - x) * w.get(f"{path}.{name}_shift.share", d)

    r, k = (heads(w, path, name, shifted(name), h, e) for name in ("receptance", "key"))
    v = heads(w, path, "value", shifted("value"), h, e)
    fade = low_rank(w, path + ".fade_rank", shifted("fade"), h, e, act=torch.tanh, rank=rank) + w.get(path + ".fade", h, e)
    decay = (-math.exp(-0.5) * fade.sigmoid()).exp()
    a = (low_rank(w, path + ".share_rank", shifted("share"), h, e, rank=rank) + w.get(path + ".share", h, e)).sigmoid()
    g = low_rank(w, path + ".gate_rank", shifted("gate"), h, e, act=torch.sigmoid, rank=rank)
    kk = F.normalize(k * w.get(path + ".removed", h, e), dim=-1)
    k = k * (1 + (a - 1) * w.get(path + ".replaced", h, e))
    S, out = torch.zeros(x.shape[0], h, e, e, dtype=x.dtype), []  # [value, key]
    for t in range(x.shape[1]):
        removal = torch.diag_embed(decay[:, t]) - kk[:, t, :, :, None] * (a * kk)[:, t, :, None, :]
        S = S @ removal + v[:, t, :, :, None] * k[:, t, :, None, :]
        out.append((S @ r[:, t, :, :, None])[..., 0])
    o = torch.stack(out, 1)
    o = F.group_norm(o.reshape(-1, d), h, w.get(path + ".weight", h, e).flatten(), w.get(path + ".bias", h, e).flatten(), 64e-5)
    o = o.view(v.shape) + (r * k * w.get(path + ".bonus", h, e)).sum(-1, keepdim=True) * v
    return project(w, path, o * g, d)


LAYERS = {"lstm": lstm, "min_gru": min_gru, "linear_attention": linear_attention, "gated_delta": gated_delta, "mamba2": mamba2,
          "gla": gla, "rwkv7": rwkv7}


def mix(w, path, row, spec, x, rotate):
    kind = spec["kind"]
    if kind == "retention":
        return retention(w, path, spec, x, rotate)
    return LAYERS[kind](w, path, spec, x)
