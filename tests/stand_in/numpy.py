"""Names of NumPy that the package moec needs without arrays: its training runs work where NumPy is missing."""

bool_ = bool
ndarray = tuple
