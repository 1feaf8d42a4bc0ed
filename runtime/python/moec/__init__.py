"""moec from Python: models as NumPy arrays that lie where the model keeps them.

NumPy arrays speak DLPack, both ways: torch.from_dlpack(model.parameters["embedding"]) shares the memory.
"""

import ctypes
import json
import os

import numpy

from . import library as _library
from .library import Error, check, shared

__all__ = ["Error", "Model", "load", "read_log"]


def _view(array, owner):
    """A NumPy array over memory of the model, which lives as long as the array does."""
    shape = tuple(array.shape[:array.rank])
    count = int(numpy.prod(shape, dtype=numpy.int64))
    kind = ctypes.c_int32 if array.is_int else ctypes.c_float
    buffer = (kind * count).from_address(array.data)
    buffer._owner = owner
    return numpy.frombuffer(buffer, dtype=numpy.int32 if array.is_int else numpy.float32).reshape(shape)


class _Handle:
    """The model of the library; arrays over its memory hold it."""

    def __init__(self, path, load):
        self.pointer = ctypes.c_void_p()
        check(shared.moec_load(path, ctypes.byref(load), ctypes.byref(self.pointer)))

    def __del__(self):
        if self.pointer:
            shared.moec_free(self.pointer)


def _tokens(tokens, shape):
    """Tokens as the library reads them; those that are already so are not copied."""
    if not isinstance(tokens, numpy.ndarray) and hasattr(tokens, "__dlpack__"):
        tokens = numpy.from_dlpack(tokens)
    array = numpy.ascontiguousarray(tokens, dtype=numpy.int32)
    if array.shape != shape:
        raise ValueError(f"tokens of shape {shape} are wanted, not {array.shape}")
    return array


class Model:
    """A loaded model. Its arrays are views: what is computed next is seen in them."""

    def __init__(self, path=None, spec=None, sets=(), run=True, train=False, generate=True, batch=0, context=0, seed=0,
                 input_gradients=False, cotangent=None):
        texts = (ctypes.c_char_p * max(len(sets), 1))(*[text.encode() for text in sets])
        can = run * _library.CAN_RUN | train * _library.CAN_TRAIN | generate * _library.CAN_GENERATE
        load = _library.Load(spec.encode() if spec else None, texts, len(sets), can, batch, context, seed, input_gradients,
                             cotangent.encode() if cotangent else None)
        self._handle = _Handle(os.fsencode(path) if path else None, load)
        self._model = self._handle.pointer
        self.batch = shared.moec_batch(self._model)
        self.context = shared.moec_context(self._model)
        self.vocabulary = shared.moec_vocabulary(self._model)
        self.parameters = self.arrays(_library.WEIGHT)

    def arrays(self, kind):
        """All arrays of a kind of library.py, by name."""
        found = {}
        for place in range(shared.moec_count(self._model, kind)):
            array = _library.Array()
            check(shared.moec_array(self._model, kind, place, ctypes.byref(array)))
            found[array.name.decode()] = _view(array, self._handle)
        return found

    def logits(self, tokens):
        """Of tokens [batch, context]: [batch, context, vocabulary], until the next call."""
        array = _tokens(tokens, (self.batch, self.context))
        data = ctypes.c_void_p()
        check(shared.moec_logits(self._model, array.ctypes.data, ctypes.byref(data)))
        return self.arrays(_library.RUN_OUTPUT)["logits"]

    def _number(self, function, windows, shape):
        array, number = _tokens(windows, shape), ctypes.c_double()
        check(function(self._model, array.ctypes.data, ctypes.byref(number)))
        return number.value

    def loss(self, windows):
        """Of windows [batch, context + 1]."""
        return self._number(shared.moec_loss, windows, (self.batch, self.context + 1))

    def gradients(self, windows):
        """The loss, and the gradients of all parameters by name, until the next call."""
        loss = self._number(shared.moec_gradients, windows, (self.batch, self.context + 1))
        return loss, self.arrays(_library.GRADIENT)

    def step(self, windows):
        """One step of the spec's optimizer, on windows [train.accumulate * batch, context + 1]; the loss before it."""
        rows = numpy.shape(windows)[0] // self.batch * self.batch
        return self._number(shared.moec_step, windows, (rows, self.context + 1))

    def generate(self, prompt, tokens=0, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repetition=1.0, seed=0, stop=None):
        """The text that comes after the prompt."""
        how = _library.Generation(tokens, temperature, top_k, top_p, min_p, repetition, seed, stop.encode() if stop else None)
        text = ctypes.c_void_p()
        check(shared.moec_generate(self._model, prompt.encode(), ctypes.byref(how), ctypes.byref(text)))
        return self._text(text)

    @staticmethod
    def _text(text):
        try:
            return ctypes.string_at(text).decode("utf-8", "replace")
        finally:
            shared.moec_release(text)

    def encode(self, text):
        """The tokens of a text."""
        data, count, given = ctypes.c_void_p(), ctypes.c_size_t(), text.encode()
        check(shared.moec_encode(self._model, given, len(given), ctypes.byref(data), ctypes.byref(count)))
        try:
            return numpy.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_int32)), (count.value,)).copy()
        finally:
            shared.moec_release(data)

    def decode(self, tokens):
        """The text of tokens."""
        array, text = numpy.ascontiguousarray(tokens, dtype=numpy.int32), ctypes.c_void_p()
        check(shared.moec_decode(self._model, array.ctypes.data, array.size, ctypes.byref(text)))
        return self._text(text)

    def save(self, path):
        """The weights and the spec as a checkpoint, which every command reads."""
        check(shared.moec_save(self._model, os.fsencode(path)))


def load(path, **options):
    """A run, a checkpoint, or a spec, FILE or FILE:MODEL; the options are those of Model."""
    return Model(path, **options)


def read_log(folder):
    """The log of a run as a pandas.DataFrame, a row a line of its log.jsonl."""
    import pandas

    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as log:
        return pandas.json_normalize([json.loads(line) for line in log if line.endswith("\n")])
