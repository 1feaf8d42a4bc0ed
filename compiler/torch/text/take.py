def take(x, index, dim):
    """The elements of `x` at `index` along `dim`; 0 outside of `x`."""
    index = torch.as_tensor(index, device=x.device)
    inside = (index >= 0) & (index < x.shape[dim])
    rows = x.index_select(dim, index.clamp(0, x.shape[dim] - 1).reshape(-1))
    if index.dim() == 0:
        return rows.squeeze(dim) * inside
    return rows * inside.view([-1 if i == dim else 1 for i in range(x.dim())])


