def top_k(x, k, dim):
    """1 for the k largest elements along `dim`, else 0. On a tie, the element with the lowest index comes first."""
    if torch.compiler.is_exporting():  # ONNX has no stable sort, but its TopK has the same rule for ties
        chosen = x.detach().topk(k, dim=dim).indices
    else:
        chosen = x.detach().argsort(dim=dim, descending=True, stable=True).narrow(dim, 0, k)
    return torch.zeros_like(x).scatter(dim, chosen, 1)


