"""Checks of arguments. Each returns the value as the library reads it, or raises TypeError or ValueError with the name of the
argument, the expectation and the value."""

import math
import numbers
import operator
import os
import reprlib

import numpy

INT_MAX, LONG_MAX, SEED_MAX = 2**31 - 1, 2**63 - 1, 2**64 - 1


def _shown(value):
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def integer(name, value, least, most):
    try:
        number = None if isinstance(value, (bool, numpy.bool_)) or getattr(value, "shape", ()) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name}: expected an integer, got {_shown(value)}")
    if not least <= number <= most:
        raise ValueError(f"{name}: expected an integer from {least} to {most}, got {number}")
    return number


def real(name, value, least, most=math.inf, above=False):
    """A finite number from least to most, or above least."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected a number, got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and (least < number if above else least <= number) and number <= most):
        limits = f"above {least}" if above else f"of at least {least}"
        raise ValueError(f"{name}: expected a finite number {limits}"
                         + (f" and at most {most}" if most < math.inf else "") + f", got {value!r}")
    return number


def flag(name, value):
    if not isinstance(value, (bool, numpy.bool_)):
        raise TypeError(f"{name}: expected True or False, got {_shown(value)}")
    return bool(value)


def _no_zero(name, data):
    if b"\0" in data:
        raise ValueError(f"{name}: expected text without NUL characters, got one at byte {data.index(0)}")
    return data


def utf8(name, value):
    """The bytes of a text, which may contain NUL characters."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, got {_shown(value)}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}: expected Unicode text, got a surrogate at position {error.start}") from None


def text(name, value, least=0):
    """The bytes of a text of `least` or more for the library, which ends texts with a zero."""
    data = _no_zero(name, utf8(name, value))
    if len(data) < least:
        raise ValueError(f"{name}: expected a text that is not empty, got ''")
    return data


def optional_text(name, value):
    return None if value is None else text(name, value, 1)


def path(name, value):
    if isinstance(value, (bool, int)):
        raise TypeError(f"{name}: expected a path, got {_shown(value)}")
    try:
        data = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name}: expected a path, got {_shown(value)}") from None
    except UnicodeEncodeError:
        raise ValueError(f"{name}: expected a path, got {_shown(value)}") from None
    if not data:
        raise ValueError(f"{name}: expected a path that is not empty, got {value!r}")
    return _no_zero(name, data)


def texts(name, values):
    """The bytes of each of several texts."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name}: expected a list of texts, got {_shown(values)}")
    try:
        values = list(values)
    except TypeError:
        raise TypeError(f"{name}: expected a list of texts, got {_shown(values)}") from None
    return [text(f"{name}[{i}]", value, 1) for i, value in enumerate(values)]


def _as_array(name, value):
    if not isinstance(value, numpy.ndarray) and hasattr(value, "__dlpack__"):
        try:
            return numpy.from_dlpack(value)
        except (TypeError, RuntimeError, BufferError, ValueError) as error:
            raise TypeError(f"{name}: expected an array of integers on the CPU, got {type(value).__name__}: {error}") from None
    try:
        return numpy.asarray(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: expected an array of integers: {error}") from None


def tokens(name, value, shape, limit):
    """Contiguous int32 tokens below the limit (0: no limit). A size of None in the shape is any. An array of this form is not
    copied."""
    array = _as_array(name, value)
    wanted = "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"
    is_empty = array.size == 0 and array.dtype == numpy.float64 and not hasattr(value, "dtype")
    if array.dtype.kind not in "iu" and not is_empty:
        raise TypeError(f"{name}: expected integers, got an array of {array.dtype}")
    if array.ndim != len(shape) or any(size is not None and size != own for size, own in zip(shape, array.shape)):
        raise ValueError(f"{name}: expected the shape {wanted}, got {list(array.shape)}")
    most = limit - 1 if limit else INT_MAX
    if array.size and (array.min() < 0 or array.max() > most):
        index = numpy.unravel_index(int(numpy.argmax((array < 0) | (array > most))), array.shape)
        raise ValueError(f"{name}: expected tokens from 0 to {most}, got {array[index]} at {[int(i) for i in index]}")
    return numpy.ascontiguousarray(array, dtype=numpy.int32)
