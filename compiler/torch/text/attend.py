def attend(
    cache,
    q,
    k,
    v,
    *,
    scale,
    causal=True,
    window=0,
    softcap=0.0,
    sink=None,
    documents=None,
    chosen=None,
    block=(1, 1, 1),
    bias=None,
    lse=False,
    queries=None,
    keys=None,
):
    """Softmax attention of q[..., s, h, e] over k[..., t, h, e] and v[..., t, h, c].

    Queries and keys are the current positions and all positions so far, unless others are given.
    Query head h reads key head floor(h * keys / heads). `sink` is a logit per head without a value.
    Each element of `chosen` is for block[0] queries, block[1] heads and block[2] keys. `bias` has the
    addends of the scores by head and distance s - t, from 0 with a mask, else centered at 0.
    """
    heads = torch.arange(q.shape[-2], device=q.device)
    queries = cache.positions if queries is None else queries
    keys = cache.all_positions if keys is None else keys
    k = k[..., heads * k.shape[-2] // len(heads), :].transpose(-3, -2)
    v = v[..., heads * v.shape[-2] // len(heads), :].transpose(-3, -2)
    q = q.transpose(-3, -2)
    s, t = queries[:, None], keys
    mask = t <= s if causal else torch.ones_like(t <= s)
    if window:
        mask = mask & (s - t < window)
    if documents is not None:
        mask = mask & (documents[..., queries, None] == documents[..., None, :]).unsqueeze(-3)
    if chosen is not None:
        rows = cache.range(len(queries)) if block[0] == 1 else queries // block[0]
        picked = chosen[..., heads // block[1], :].transpose(-3, -2)[..., rows, :]
        mask = mask & (picked[..., keys // block[2]] != 0)
    if not softcap and sink is None and chosen is None and bias is None and not lse:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).transpose(-3, -2)
    scores = scale * q @ k.transpose(-1, -2)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        zero = 0 if causal else bias.shape[-1] // 2
        scores = scores + bias[..., (s - t + zero).clamp(0, bias.shape[-1] - 1)]
    scores = scores.masked_fill(~mask, -math.inf)
    if chosen is not None:  # a query without any key
        scores = scores.masked_fill(~mask.any(-1, keepdim=True), -8e37)
    total = torch.logsumexp(scores, -1)
    if sink is not None:
        total = torch.logaddexp(total, sink[:, None])
    weights = torch.exp(scores - total[..., None])
    if chosen is not None:
        weights = weights.masked_fill(~mask, 0)
    out = (weights @ v).transpose(-3, -2)
    return (out, total.transpose(-2, -1)) if lse else out


