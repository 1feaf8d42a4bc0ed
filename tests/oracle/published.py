"""Four published systems in plain PyTorch, written from the formulas of their papers.

Only the names of the weights are shared with the compiler: rows.py defines the rows, oracle.py computes the numbers. Everything is
in double precision and as simple as possible, without regard to speed.

    Gated Attention   Qiu et al. 2025, equations 1 to 5 and table 1
    Sigma             Lin et al. 2025, equation 3 and appendix E
    StructMoE         Sarwar et al. 2024, equation 2
    Complete-muE      tables 1 and 2
"""
import math

import numpy as np
import torch
import torch.nn.functional as F

from recurrent import mix


def number(name, shape):
    """Weights from a name: FNV-1a of the name, then splitmix64 per element; every value is exact in single precision."""
    mask = (1 << 64) - 1
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = ((key ^ byte) * 0x100000001B3) & mask
    z = np.uint64(key) + np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    unit = ((z ^ (z >> np.uint64(31))) >> np.uint64(42)) / 2.0**21 - 1
    values = 0.25 * unit if len(shape) > 1 else 1 + 0.25 * unit
    return torch.from_numpy(values).reshape(shape)


def tokens(count):
    state, out = 1, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        out.append(state >> 56)
    return out


ACTIVATIONS = {
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "identity": lambda x: x,
    "ns_sigmoid": lambda x: 0.5 + 0.5 * torch.sigmoid(x),
}


class Weights:
    """Parameters that are created on first use, with their paths as names."""

    def __init__(self):
        self.all = {}

    def get(self, name, *shape):
        if name not in self.all:
            self.all[name] = number(name, shape).requires_grad_()
        assert self.all[name].shape == shape, name
        return self.all[name]


def rms_norm(x, weight):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def norm(w, path, x, kind):
    size = x.shape[-1]
    if kind == "rms":
        return rms_norm(x, w.get(path + ".weight", size))
    return F.layer_norm(x, (size,), w.get(path + ".weight", size), w.get(path + ".shift", size), 1e-5)


def stretch(frequency, base, width, factor, original, fast, slow):
    """YaRN (arXiv 2309.00071). Pairs with more than `fast` turns within the original context stay; those with fewer than `slow` turns
    are slowed by the factor; a ramp is between them. Also the factor of queries and keys."""
    pair = lambda turns: width * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base))
    low, high = max(math.floor(pair(fast)), 0), min(math.ceil(pair(slow)), width - 1)
    slowed = ((torch.arange(width // 2, dtype=frequency.dtype) - low) / (high - low)).clamp(0, 1)
    return frequency * (1 - slowed) + frequency / factor * slowed, 1 + 0.1 * math.log(factor)


def rotate(x, base, yarn=None):
    """x: batch, position, head, width. RoPE in halves."""
    width = x.shape[-1]
    frequency = base ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
    if yarn:
        frequency, magnitude = stretch(frequency, base, width, **yarn)
        x = x * magnitude
    angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * frequency
    cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def gate(w, path, row, at, y, x, log, after="projection"):
    """Y' = Y * act(X W) or Y + act(X W); y: batch, position, head, width (or batch, position, width at `out`)."""
    spec = row["gate"]
    if spec is None or spec["at"] != at or spec["after"] != after:
        return y
    act, own = ACTIVATIONS[spec["act"]], tuple(y.shape[2:])
    if spec["reads"] == "itself":
        score = act(y)
    elif spec["reads"] == "nothing":
        score = act(w.get(path + ".weight", *own)).expand_as(y)
    elif at == "out":
        score = act(x @ w.get(path + ".weight", own[0], own[0]))
    elif spec["per"] == "head":
        score = act(x @ w.get(path + ".weight", x.shape[-1], own[0]))[..., None]
    else:
        score = torch.einsum("btd,dhc->bthc", x, w.get(path + ".weight", x.shape[-1], *own))
        if spec["average"] == "logits":
            score = score.mean(2, keepdim=True)
        score = act(score)
        if spec["per"] == "shared":
            score = score.mean(2, keepdim=True)
    log.setdefault("gate", []).append(score.mean())
    return y + score if spec["mode"] == "add" else y * score


def softmax_attention(row, q, k, v, log, best):
    """Query head i reads key head floor(i nk / nq) and value head floor(i nv / nq)."""
    heads, positions = q.shape[2], q.shape[1]
    k = k[:, :, [i * k.shape[2] // heads for i in range(heads)]]
    v = v[:, :, [i * v.shape[2] // heads for i in range(heads)]]
    score = torch.einsum("bihe,bjhe->bhij", q, k) / math.sqrt(q.shape[-1])
    future = torch.ones(positions, positions, dtype=torch.bool).triu(1)
    weight = (score.masked_fill(future, -math.inf) if row["causal"] else score).softmax(-1)
    log.setdefault("first_token_attention", []).append(weight[..., 0].mean())
    if best and best < positions:  # only the values of the largest weights, without renormalization
        kept = torch.zeros_like(weight).scatter(-1, weight.topk(best, -1).indices, 1.0)
        weight = weight * kept
    return torch.einsum("bhij,bjhc->bihc", weight, v)


def widen(w, path, row, k):
    """Projects narrow keys to the head dimension: one matrix, one per head, or a hidden layer."""
    heads, kept, width, hidden = k.shape[2], k.shape[3], row["width"], row["widen_hidden"]
    if hidden:
        return F.silu(k @ w.get(path + ".up", kept, hidden)) @ w.get(path + ".down", hidden, width)
    if row["widen_per_head"]:
        return torch.einsum("bthj,hje->bthe", k, w.get(path + ".weight", heads, kept, width))
    return k @ w.get(path + ".weight", kept, width)


def attention(w, path, row, x, log, best):
    d, nq, nk, nv = row["dim"], row["q"], row["k"], row["v"]
    width, kept, value_width = row["width"], row["key_width"], row["width"]
    q = torch.einsum("btd,dhe->bthe", x, w.get(path + ".query", d, nq, width))
    if row["augment"]:  # W_down(silu(q W_gate) * (q W_up)) on all heads together
        hidden = row["augment"]
        flat = q.flatten(2)
        up = w.get(path + ".augment.up", nq, width, hidden).flatten(0, 1)
        open_ = w.get(path + ".augment.gate", nq, width, hidden).flatten(0, 1)
        down = w.get(path + ".augment.down", hidden, nq, width).flatten(1, 2)
        q = ((F.silu(flat @ open_) * (flat @ up)) @ down).reshape(q.shape)
    k = torch.einsum("btd,dhe->bthe", x, w.get(path + ".key", d, nk, kept))
    v = torch.einsum("btd,dhe->bthe", x, w.get(path + ".value", d, nv, value_width))
    q = gate(w, path + ".query_gate", row, "q", q, x, log)
    k = gate(w, path + ".key_gate", row, "k", k, x, log)
    v = gate(w, path + ".value_gate", row, "v", v, x, log)
    if row["turn_kept"]:
        k = rotate(k, row["base"])
    if kept < width:
        k = widen(w, path + ".widen", row, k)
    if row["qk_norm"]:
        q = rms_norm(q, w.get(path + ".query_norm.weight", width))
        k = rms_norm(k, w.get(path + ".key_norm.weight", width))
    q = gate(w, path + ".normed_query_gate", row, "q", q, x, log, after="norm")
    k = gate(w, path + ".normed_key_gate", row, "k", k, x, log, after="norm")
    if row["base"]:
        q = rotate(q, row["base"], row["yarn"])
        k = k if row["turn_kept"] else rotate(k, row["base"], row["yarn"])
    o = softmax_attention(row, q, k, v, log, best)
    if row["group_norm"]:
        o = rms_norm(o, w.get(path + ".out_norm.weight", value_width))
    o = gate(w, path + ".sdpa_gate", row, "sdpa", o, x, log)
    y = torch.einsum("bthc,hcd->btd", o, w.get(path + ".output", nq, value_width, d))
    return gate(w, path + ".output_gate", row, "out", y, x, log)


def swiglu(x, up, open_, down):
    return (F.silu(x @ open_) * (x @ up)) @ down


def lore_expert(spec, x, p):
    """out = act(x W_up + sum over the top l of pi_j (x A_j) B_j) W_down; p: this expert's weights; x: rows, d."""
    act = ACTIVATIONS[spec["act"]]
    maps = torch.zeros(x.shape[0], p["B"].shape[-1], dtype=x.dtype)
    inner = F.gelu if spec["apart"] else ACTIVATIONS["identity"]
    if spec["routed"]:
        pi = (x @ p["router"]).softmax(-1)
        choice = pi.topk(spec["top"], -1).indices
        for j in range(p["A"].shape[0]):
            taken = (choice == j).any(-1)
            rows = x[taken]
            maps = maps.index_add(0, taken.nonzero()[:, 0], pi[taken, j][:, None] * (inner(rows @ p["A"][j]) @ p["B"][j]))
    else:
        for j in range(p["A"].shape[0]):
            maps = maps + inner(x @ p["A"][j]) @ p["B"][j]
    hidden = x @ p["up"]
    if not spec["apart"]:
        hidden = hidden + maps
    hidden = act(hidden)
    if spec["gated"]:
        hidden = hidden * (x @ p["line"])
    out = hidden @ p["down"]
    return out + maps if spec["apart"] else out


def expert_weights(w, path, spec, lead, d):
    """All experts of a layer, stacked along `lead`."""
    f, e = spec["hidden"], spec["expert"]
    if e["kind"] == "lore":
        m, r, wide = e["lores"], e["rank"], d if e["apart"] else f
        shapes = {"up": (d, f), "down": (f, d), "A": (m, d, r), "B": (m, r, wide)}
        if e["routed"]:
            shapes["router"] = (d, m)
        if e["gated"]:
            shapes["line"] = (d, f)
    elif e["kind"] == "mlp":
        shapes = {"up": (d, f), "down": (f, d)}
    else:
        shapes = {"up": (d, f), "gate": (d, f), "down": (f, d)}
    made = {}
    for part, shape in shapes.items():
        whole = w.get(f"{path}.expert.{part}", *lead, *shape)
        made[part] = whole.reshape(spec["experts"], *shape)
    return made


def run_expert(spec, p, x):
    kind = spec["expert"]["kind"]
    if kind == "lore":
        return lore_expert(spec["expert"], x, p)
    if kind == "mlp":
        return F.gelu(x @ p["up"]) @ p["down"]
    return swiglu(x, p["up"], p["gate"], p["down"])


def mixture(w, path, row, x, log):
    spec, d = row["ffn"], row["dim"]
    n, k, groups = spec["experts"], spec["top"], spec["groups"]
    batch, positions = x.shape[:2]
    lead = (groups, n // groups) if groups > 1 else (n,)
    logits = x @ w.get(path + ".router", d, *lead).reshape(d, n)
    p = logits.softmax(-1) if spec["score"] == "softmax" else logits.sigmoid()
    taken = torch.zeros(batch, positions, n, dtype=torch.bool)
    if spec["choice"] == "expert":  # each expert selects its best tokens of each sequence
        best = p.topk(positions * k // n, 1).indices
        taken.scatter_(1, best, True)
    else:  # each token selects the best experts of each group
        best = p.reshape(batch, positions, groups, -1).topk(k // groups, -1).indices
        taken.view(batch, positions, groups, -1).scatter_(-1, best, True)
    weight = p
    if spec["renormalised"]:
        weight = p / (p * taken).sum(-1, keepdim=True)
    if spec["grouped"]:
        total = (p * taken).reshape(batch, positions, groups, -1).sum(-1, keepdim=True)
        weight = (p.reshape(batch, positions, groups, -1) / total).reshape(p.shape)
    each = expert_weights(w, path, spec, lead, d)
    flat, y = x.reshape(-1, d), torch.zeros(batch * positions, d, dtype=x.dtype)
    for i in range(n):
        rows = taken[..., i].reshape(-1).nonzero()[:, 0]
        out = run_expert(spec, {part: whole[i] for part, whole in each.items()}, flat[rows])
        y = y.index_add(0, rows, weight[..., i].reshape(-1)[rows][:, None] * out)
    y = spec["route"] * y.reshape(x.shape)
    if spec["shared"]:
        f = spec["shared"]
        y = y + swiglu(x, w.get(path + ".shared.up", d, f), w.get(path + ".shared.gate", d, f), w.get(path + ".shared.down", f, d))
    load = taken.double().mean((0, 1)) / k
    if spec["balance"]:  # Switch: N sum_i f_i P_i
        part = p if spec["score"] == "softmax" else p / p.sum(-1, keepdim=True)
        log.setdefault("balance", []).append(spec["balance"] * n * (load * part.mean((0, 1))).sum())
    if spec["z"]:
        log.setdefault("router_z", []).append(spec["z"] * logits.logsumexp(-1).pow(2).mean())
    return spec["multiplier"] * y


def feed_forward(w, path, row, x, log):
    spec, d = row["ffn"], row["dim"]
    if "experts" in spec:
        return mixture(w, path, row, x, log)
    f = spec["hidden"]
    y = swiglu(x, w.get(path + ".up", d, f), w.get(path + ".gate", d, f), w.get(path + ".down", f, d))
    return spec.get("multiplier", 1) * y


def forward(w, row, windows, decoding=False):
    """windows: batch, positions + 1. The logits and the logged values: lists by layer."""
    log, kind = {}, row["norm"]
    embedding = w.get("embedding", row["vocab"], row["dim"])
    x = embedding[windows[:, :-1]]
    for i in range(row["layers"]):
        path = f"block.{i}"
        seen, spec = norm(w, path + ".attention_norm", x, kind), row["parts"][i % len(row["parts"])]
        if spec:
            a = mix(w, path + ".attention", row, spec, seen, rotate)
        else:
            a = attention(w, path + ".attention", row, seen, log, row["best"] if decoding else 0)
        if row["sandwich"]:
            a = norm(w, path + ".attention_out_norm", a, kind)
        x = x + row["branch"] * a
        f = feed_forward(w, path + ".ffn", row, norm(w, path + ".ffn_norm", x, kind), log)
        if row["sandwich"]:
            f = norm(w, path + ".ffn_out_norm", f, kind)
        x = x + row["branch"] * f
        log.setdefault("max_activation", []).append(x.abs().max())
    x = norm(w, "final_norm", x, kind)
    logits = row["head"] * (x @ (embedding.T if row["tied"] else w.get("unembedding", row["dim"], row["vocab"])))
    return logits, log


def velocity(w, row, inputs):
    """A diffusion transformer: time and class determine shifts, scales and gates of each block; the target is noise - image."""
    image, noise, t, d, log = inputs["image"], inputs["noise"], inputs["time"], row["dim"], {}
    seen = (1 - t)[..., None] * image + t[..., None] * noise
    angle = 1000 * t * 10000 ** (-torch.arange(32, dtype=t.dtype) / 32)
    wave = torch.cat([angle.cos(), angle.sin()], -1)
    clock = F.silu(wave @ w.get("time_embedding.up", 64, d)) @ w.get("time_embedding.down", d, d)
    given = F.silu(clock + w.get("class", row["classes"], d)[inputs["label"]])
    x = w.get("place", image.shape[1], d) + seen @ w.get("patch", image.shape[2], d)
    for i in range(row["layers"]):
        path = f"block.{i}"
        m = torch.einsum("bd,dpj->pbj", given, w.get(path + ".steer", d, 6, d))[:, :, None]
        a = norm(w, path + ".attention_norm", x, "layer") * (1 + m[0]) + m[1]
        x = x + m[2] * attention(w, path + ".attention", row, a, log, 0)
        f = norm(w, path + ".ffn_norm", x, "layer") * (1 + m[3]) + m[4]
        x = x + m[5] * feed_forward(w, path + ".ffn", row, f, log)
    x = norm(w, "final_norm", x, "layer")
    return x @ w.get("head", d, image.shape[2]), log


def flow_matching(row, spoken, log, inputs):
    out = {"loss": (spoken - (inputs["noise"] - inputs["image"])).pow(2).mean()}
    if "balance" in log:
        out["balance"] = sum(log["balance"])
    out["total"] = out["loss"] + out.get("balance", 0)
    return out


def losses(row, logits, log, windows):
    """Scalars by name; terms are sums over layers, logged values are means."""
    out = {"loss": F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())}
    total = out["loss"]
    for name in ("balance", "router_z"):
        if name in log:
            out[name] = sum(log[name])
            total = total + out[name]
    out["total"] = total
    for name in ("first_token_attention", "gate", "max_activation"):
        if name in log and row["probes"]:
            out[name] = sum(log[name]) / len(log[name])
    return out
