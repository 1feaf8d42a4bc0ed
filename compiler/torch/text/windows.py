def windows(x, dim, size, length):
    """For each of the last `length` positions along `dim`, the position itself and the `size` - 1 before it in a new last
    dimension; 0 before the first.
    """
    padded = F.pad(x, [0, 0] * (x.dim() - dim - 1) + [size - 1, 0])
    return padded.unfold(dim, size, 1).narrow(dim, x.shape[dim] - length, length).flip(-1)


