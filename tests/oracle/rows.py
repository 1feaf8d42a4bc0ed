"""The rows of the four papers at the small size, in the terms of the papers.

gate(position, granularity, ...) as in table 1 of Gated Attention, heads and widths as Sigma's n_q, n_k, n_v, D, experts, LoREs and
ranks as in StructMoE, experts, active, groups, shared, A and R as in Complete-muE.
"""


def decoder(dim=48, layers=3, q=4, k=4, v=None, width=12, base=10000, tied=False, norm="rms", **more):
    row = dict(vocab=256, dim=dim, layers=layers, q=q, k=k, v=v or k, width=width, key_width=width, base=base, tied=tied, norm=norm)
    row.update(yarn=None, qk_norm=False, group_norm=False, sandwich=False, gate=None, augment=0, best=0, lr=4e-3, decay=0.1)
    row.update(probes=False, causal=True, turn_kept=False, widen_hidden=0, widen_per_head=False)
    row.update(branch=1, head=1, settings=None)  # factors of the residual branches and of the logits; the optimizer of each weight
    row.update(parts=[None])  # mixers of the layers in turn: attention, or a recurrence
    row.update(more)
    return row


def gate(at, per="element", act="sigmoid", mode="multiply", reads="input", after="projection", average="scores"):
    return dict(at=at, per=per, act=act, mode=mode, reads=reads, after=after, average=average)


def mixture(experts, top, hidden, expert=None, **more):
    row = dict(experts=experts, top=top, hidden=hidden, expert=expert or dict(kind="swiglu"), groups=1, score="softmax")
    row.update(renormalised=False, grouped=False, route=1, shared=0, multiplier=1, choice="token", balance=0.01, z=0)
    row.update(more)
    return row


def gated_attention():
    def moe(q=4, k=2, experts=8, top=2, **more):
        ffn = mixture(experts, top, 24, renormalised=True, z=1e-3)
        return decoder(q=q, k=k, width=16, qk_norm=True, ffn=ffn, probes=True, **more)

    rows = {"moe_small": moe(), "moe_small_k8": moe(k=4), "moe_small_q48": moe(q=6), "moe_small_experts": moe(experts=10, top=4)}
    gates = {
        "sdpa": gate("sdpa"), "v": gate("v"), "k": gate("k"), "q": gate("q"), "out": gate("out"),
        "sdpa_head": gate("sdpa", "head"), "v_head": gate("v", "head"),
        "sdpa_shared": gate("sdpa", "shared"), "v_shared": gate("v", "shared"),
        "sdpa_add": gate("sdpa", act="silu", mode="add"), "sdpa_silu": gate("sdpa", act="silu"),
        "itself": gate("sdpa", reads="itself"), "identity": gate("sdpa", act="identity", mode="add"),
        "no_input": gate("sdpa", reads="nothing"), "ns_sigmoid": gate("sdpa", act="ns_sigmoid"),
        "logits": gate("sdpa", "shared", average="logits"), "k_after": gate("k", after="norm"),
    }
    for name, spec in gates.items():
        rows["moe_small_" + name] = moe(gate=spec)
    rows["moe_small_group_norm"] = moe(group_norm=True)

    def dense(hidden=144, **more):
        return decoder(k=2, tied=True, qk_norm=True, ffn=dict(hidden=hidden), probes=True, **more)

    rows["dense_small"] = dense()
    rows["dense_small_sdpa"] = dense(128, gate=gate("sdpa"))
    rows["dense_small_head"] = dense(143, gate=gate("sdpa", "head"))
    rows["dense_small_sandwich"] = dense(sandwich=True, lr=8e-3)
    stretched = dict(factor=4, original=16, fast=1.5, slow=0.1)
    rows["dense_small_yarn"] = dense(128, gate=gate("sdpa"), base=100, yarn=stretched)
    return rows


def sigma():
    def model(k, v, hidden=88, half=False, turn_kept=True, **more):
        row = decoder(q=8, k=k, v=v, width=8, base=50000, tied=True, ffn=dict(hidden=hidden), **more)
        row["key_width"] = 4 if half else 8
        row["turn_kept"] = half and turn_kept
        return row

    rows = {
        "sigma_small": model(1, 4, 96, augment=72), "standard_small": model(4, 4, 96),
        "sigma_small_wide": model(1, 4, 160, augment=96, dim=64),
        "mha_small": model(8, 8), "mha_small_v16": model(8, 4), "mha_small_k16": model(4, 8), "gqa16_small": model(4, 4),
        "gqa16_small_v4": model(4, 1), "gqa16_small_k4": model(1, 4), "gqa4_small": model(2, 2),
        "gqa4_small_v1": model(2, 1), "gqa4_small_k1": model(1, 2),
        "gqa16_small_q64": model(4, 4, augment=64), "gqa16_small_q88": model(4, 4, augment=88),
    }
    for name, heads, augment in (("mha", 8, 88), ("gqa16", 4, 48), ("gqa4", 2, 88)):
        rows[name + "_small_half"] = model(heads, heads, half=True)
        rows[name + "_small_best"] = model(heads, heads, best=10)
        rows[name + "_small_q"] = model(heads, heads, augment=augment)
    for name, more in (("f", 1), ("2f", 2), ("3f", 3), ("5f", 5)):
        rows["gqa16_small_" + name] = model(4, 4, 88 + 64 * more)
        if more < 5:
            rows[f"gqa16_small_{name}_q"] = model(4, 4, 88 + 64 * more, augment=48)
    rows["gqa16_small_q_k4"] = model(1, 4, augment=48)
    rows["gqa16_small_q_half"] = model(4, 4, augment=48, half=True)
    rows["gqa16_small_k4_half"] = model(1, 4, half=True)
    rows["gqa16_small_q_k4_half"] = model(1, 4, augment=48, half=True)
    rows["gqa16_small_half_expanded"] = model(4, 4, half=True, turn_kept=False)
    rows["gqa16_small_half_mlp"] = model(4, 4, half=True, widen_hidden=16)
    rows["gqa16_small_half_heads"] = model(4, 4, half=True, widen_per_head=True)
    return rows


def structmoe():
    def model(experts, top=1, hidden=192, expert=None):
        return decoder(norm="layer", ffn=mixture(experts, top, hidden, expert or dict(kind="mlp"), z=0.01))

    def lore(lores=8, rank=6, top=1, routed=True, apart=False, gated=False, act="gelu"):
        return dict(kind="lore", lores=lores, rank=rank, top=top, routed=routed, apart=apart, gated=gated, act=act)

    return {
        "baseline_small": model(13),
        "structmoe_small": model(8, expert=lore()),
        "structmoe_small_paper": model(8, expert=lore(16, 6)),
        "structmoe_small_free": model(8, expert=lore(1, 48, routed=False)),
        "baseline_small_ten": model(10),
        "structmoe_small_seven": model(7, expert=lore(8, 4)),
        "structmoe_small_seven_free": model(7, expert=lore(1, 32, routed=False)),
        "structmoe_small_apart": model(7, expert=lore(8, 10, apart=True)),
        "structmoe_small_top2": model(8, 2, expert=lore(top=2)),
        "structmoe_small_fine": model(16, 4, 48, lore(4, 4)),
        "structmoe_small_gated": model(8, hidden=128, expert=lore(gated=True, act="silu")),
    }


def wide_settings(name):
    """AdamW of one weight at twice the width and depth and four times the steps of the tuned model (rate 4e-3, decay 0.1, epsilon
    1e-3, betas 0.9 and 0.95): table 2 for all, table 1 by what the weight is, decay with the width and epsilon as CompleteP has them.
    """
    lr, decay, eps = 4e-3 / 2, 0.1 / 2, 1e-3 * 2  # the root of a fourth
    betas = 1 - 0.1 / 4, 1 - 0.05 / 4
    inside, matrix = name.startswith("block."), "norm" not in name
    if inside and matrix:  # attention, router, experts
        lr, decay, eps = lr / 2, decay * 2, eps / 2 / 2
    elif inside:
        eps = eps / 2
    elif name == "unembedding":
        lr = lr / 2
    return dict(lr=lr, decay=decay, eps=eps, betas=betas)


def complete_mue():
    def model(ffn):
        return decoder(qk_norm=True, ffn=ffn)

    def moe(experts=8, active=4, hidden=24, **more):
        settings = dict(score="sigmoid", renormalised=True, route=active, multiplier=0.25)
        settings.update(more)
        return model(mixture(experts, active, hidden, **settings))

    return {
        "mue_small_dense": model(dict(hidden=96, multiplier=0.25)),
        # A is 96 / 96 where the tuned model's is 48 / 24; branches by 1 / 2 for the depth, the head by 1 / 2 for the width.
        "mue_small_wide": decoder(dim=96, layers=6, q=8, k=8, qk_norm=True, branch=0.5, head=0.5, settings=wide_settings,
                                  ffn=mixture(8, 4, 24, score="sigmoid", renormalised=True, route=4, multiplier=0.5)),
        "mue_small": moe(),
        "mue_small_e16a4": moe(16),
        "mue_small_e16a8": moe(16, 8, 12),
        "mue_small_e8a3s1": moe(8, 3, shared=24),
        "mue_small_e8a4g2": moe(groups=2),
        "mue_small_e16a8g4s1": moe(16, 8, 12, groups=4, shared=12, multiplier=2 / 9),
        "mue_small_choice": moe(renormalised=False, route=1, choice="expert", balance=0),
        "mue_small_grouped": moe(groups=2, renormalised=False, grouped=True, route=2),
    }


def dit():
    def model(ffn):
        return decoder(qk_norm=True, base=None, causal=False, classes=4, patches=16, numbers=4, ffn=ffn, lr=3e-3, decay=0.0)

    def moe(active=3, **more):
        settings = dict(score="sigmoid", renormalised=True, route=active, multiplier=0.25, shared=24)
        settings.update(more)
        return model(mixture(8, active, 24, **settings))

    return {
        "dit_small": model(dict(hidden=96, multiplier=0.25)),
        "dit_small_e8a3s1": moe(),
        "dit_small_e8a4g2": moe(4, groups=2, shared=0),
        "dit_small_choice": moe(renormalised=False, route=1, choice="expert", balance=0),
    }


def hybrid():
    def small(lr=4e-3, **part):
        return decoder(dim=32, layers=2, parts=[part], ffn=dict(hidden=48), lr=lr)

    delta = dict(kind="gated_delta", k=2, v=4, width=8)
    return {
        "lstm_small": small(kind="lstm"),
        "min_gru_small": small(kind="min_gru"),
        "linear_small": small(kind="linear_attention", heads=4),
        "retnet_small": small(kind="retention", heads=2),
        "gated_delta_small": small(lr=5e-4, **delta),
        "mamba2_small": small(kind="mamba2", heads=4, states=8),
        "gla_small": small(kind="gla", heads=2, rank=4),
        "rwkv7_small": small(kind="rwkv7", heads=2, rank=6),
        "hybrid_small": decoder(dim=32, layers=4, q=4, k=2, width=8, qk_norm=True, gate=gate("sdpa"), parts=[delta, delta, delta, None],
                                lr=5e-4, ffn=mixture(8, 2, 16, renormalised=True)),
    }


def optimizers():
    def model(**more):
        return decoder(dim=32, layers=2, q=4, k=2, width=8, ffn=mixture(4, 2, 40, renormalised=True), **more)

    return {"muon_small": model(optimizer="muon"), "adafactor_small": model(optimizer="adafactor", lr=2e-2),
            "shampoo_small": model(optimizer="shampoo")}


FAMILIES = {"dit": dit, "gated_attention": gated_attention, "sigma": sigma, "structmoe": structmoe, "complete_mue": complete_mue,
            "hybrid": hybrid, "optimizers": optimizers}
