def attend(cache, q, k, v, *, scale, causal=True, window=0, softcap=0.0, sink=None, documents=None, lse=False):
    """Softmax attention of q[..., s, h, e] over k[..., t, h, e] and v[..., t, h, c].

    Query head h reads key head floor(h * keys / heads). `sink` is a logit per head without a value.
    """
    heads = torch.arange(q.shape[-2], device=q.device)
    k = k[..., heads * k.shape[-2] // len(heads), :].transpose(-3, -2)
    v = v[..., heads * v.shape[-2] // len(heads), :].transpose(-3, -2)
    q = q.transpose(-3, -2)
    s, t = cache.positions[:, None], cache.all_positions
    mask = t <= s if causal else torch.ones_like(t <= s)
    if window:
        mask = mask & (s - t < window)
    if documents is not None:
        mask = mask & (documents[..., cache.positions, None] == documents[..., None, :]).unsqueeze(-3)
    if not softcap and sink is None and not lse:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).transpose(-3, -2)
    scores = scale * q @ k.transpose(-1, -2)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~mask, -math.inf)
    total = torch.logsumexp(scores, -1)
    if sink is not None:
        total = torch.logaddexp(total, sink[:, None])
    out = (torch.exp(scores - total[..., None]) @ v).transpose(-3, -2)
    return (out, total.transpose(-2, -1)) if lse else out


