"""Optimizers that update matrices, from their papers, in double precision.

    muon       Jordan et al. 2024, with the factor and the decay of Liu et al. 2025; AdamW for all but hidden matrices
    adafactor  Shazeer and Stern 2018, as implemented in PyTorch
    shampoo    Gupta et al. 2018, roots by eigenvalues; AdamW for all but hidden matrices

Each function receives the weight, its clipped gradient, the number of the step from 1 and its state, a dictionary that is
initially empty. It changes the weight.
"""
import torch

INPUTS = {"query": 1, "key": 1, "value": 1, "output": 2, "router": 1}  # number of axes that the product sums over, else one


def is_matrix(p):
    return p.dim() >= 2


def is_hidden(name, p):
    return is_matrix(p) and not name.endswith("embedding")


def as_matrices(name, p):
    """[experts or none, rows, columns]"""
    last = name.split(".")[-1]
    experts = p.shape[:1] if ".expert." in name else ()
    own = p.shape[len(experts):]
    rows = int(torch.tensor(own[: INPUTS.get(last, 1)]).prod())
    return p.reshape(*experts, rows, -1)


def newton_schulz(x, turns=5):
    x = x / x.pow(2).sum((-1, -2), keepdim=True).sqrt().clamp(min=1e-7)
    for _ in range(turns):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def adamw(p, g, step, kept, lr, decay, betas=(0.9, 0.95), eps=1e-8):
    m, v = kept.setdefault("m", torch.zeros_like(p)), kept.setdefault("v", torch.zeros_like(p))
    m.mul_(betas[0]).add_((1 - betas[0]) * g)
    v.mul_(betas[1]).add_((1 - betas[1]) * g * g)
    update = (m / (1 - betas[0] ** step)) / ((v / (1 - betas[1] ** step)).sqrt() + eps)
    p.data.sub_(lr * (update + (decay if is_matrix(p) else 0.0) * p.data))


def muon(name, p, g, step, kept, lr, decay=0.1, momentum=0.95):
    if not is_hidden(name, p):
        return adamw(p, g, step, kept, lr, decay)
    g = as_matrices(name, g)
    m = kept.setdefault("m", torch.zeros_like(g))
    m.mul_(momentum).add_((1 - momentum) * g)
    x = newton_schulz(momentum * m + (1 - momentum) * g)
    scale = 0.2 * max(x.shape[-2:]) ** 0.5
    p.data.sub_(lr * (scale * x.reshape(p.shape) + decay * p.data))


def adafactor(name, p, g, step, kept, lr, decay=0.0):
    # each expert matrix is a separate parameter
    weights, grads = as_matrices(name, p.data), as_matrices(name, g)
    if not is_matrix(p):
        weights, grads = p.data[None], g[None]
    elif weights.dim() == 2:
        weights, grads = weights[None], grads[None]
    newest = step ** -0.8
    for i, (w, one) in enumerate(zip(weights, grads)):
        if is_matrix(p):
            row = kept.setdefault(("row", i), torch.zeros(one.shape[0], dtype=one.dtype))
            column = kept.setdefault(("column", i), torch.zeros(one.shape[1], dtype=one.dtype))
            row.add_(newest * (one.pow(2).mean(1) - row))
            column.add_(newest * (one.pow(2).mean(0) - column))
            square = row[:, None] * column / row.mean().clamp(min=1e-8)
        else:
            square = kept.setdefault("all", torch.zeros_like(one))
            square.add_(newest * (one.pow(2) - square))
        move = one * square.clamp(min=1e-16).rsqrt()
        pace = min(lr, step**-0.5) * max(1e-3, w.pow(2).mean().sqrt().item())
        w.mul_(1 - lr * decay)
        w.sub_(pace * move / max(1.0, move.pow(2).mean().sqrt().item()))
    p.data.copy_(weights.reshape(p.shape))


def inverse_fourth_root(a, eps=1e-4):
    n = a.shape[-1]
    mean = a.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    values, vectors = torch.linalg.eigh(a + (eps * mean + 1e-30) * torch.eye(n, dtype=a.dtype))
    return (vectors * values[..., None, :].pow(-0.25)) @ vectors.mT


def shampoo(name, p, g, step, kept, lr, decay=0.1, momentum=0.9, memory=0.95, spread=0.2):
    if not is_hidden(name, p):
        return adamw(p, g, step, kept, lr, decay)
    g = as_matrices(name, g)
    m = kept.setdefault("m", torch.zeros_like(g))
    left = kept.setdefault("left", torch.zeros_like(g @ g.mT))
    right = kept.setdefault("right", torch.zeros_like(g.mT @ g))
    m.mul_(momentum).add_((1 - momentum) * g)
    left.mul_(memory).add_((1 - memory) * g @ g.mT)
    right.mul_(memory).add_((1 - memory) * g.mT @ g)
    x = inverse_fourth_root(left) @ m @ inverse_fourth_root(right)
    x = x * (spread / x.pow(2).mean((-1, -2), keepdim=True).sqrt().clamp(min=1e-30))
    p.data.sub_(lr * (x.reshape(p.shape) + decay * p.data))


OPTIMIZERS = {"muon": muon, "adafactor": adafactor, "shampoo": shampoo}
