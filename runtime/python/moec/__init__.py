"""moec from Python: training runs, trained models and specs, with arrays as NumPy arrays in the memory of the model.

NumPy arrays support DLPack: torch.from_dlpack(model.parameters["embedding"]) shares the memory.
"""

import ctypes
import json
import os
import threading

import numpy

from . import arguments as _arguments
from . import compiler as _compiler

_compiler.find()  # before the library, which looks for a compiler on PATH

from . import library as _library
from .library import Error, __version__, check, shared
from . import notebook as _notebook
from .notebook import Comparison, Run, Spec
from .training import Progress, train

__all__ = ["Comparison", "Error", "Model", "Progress", "Run", "Spec", "__version__", "compare", "load", "read_log", "train"]


def _view(array, owner):
    """A NumPy array over memory of the model, which exists as long as the array."""
    shape = tuple(array.shape[:array.rank])
    count = int(numpy.prod(shape, dtype=numpy.int64))
    kind = ctypes.c_int32 if array.is_int else ctypes.c_float
    buffer = (kind * count).from_address(array.data)
    buffer._owner = owner
    return numpy.frombuffer(buffer, dtype=numpy.int32 if array.is_int else numpy.float32).reshape(shape)


class _Handle:
    """A model of the library, freed with the last array over its memory."""

    def __init__(self, path, load, free=shared.moec_free):
        self.pointer, self._free = ctypes.c_void_p(), free
        check(shared.moec_load(path, ctypes.byref(load), ctypes.byref(self.pointer)))

    def __del__(self):
        if self.pointer:
            self._free(self.pointer)


class Model:
    """A loaded model.

    - `path`: a run directory, a checkpoint, or a spec, `FILE` or `FILE:MODEL`
    - `spec`: text of a spec, instead of a path
    - `sets`: list of options such as `"train.lr=1e-3"`
    - `run`, `train`, `generate`: uses of the model; fewer uses load faster. `gradients` and `step` need `train=True`.
    - `batch`, `context`: sequences per call and tokens per sequence; 0 = values of the spec
    - `seed`: seed of the initial weights if there is no checkpoint
    - `input_gradients`: gradients of inputs of kind float, in the arrays of kind `TRAIN_OUTPUT`
    - `cotangent`: name of an input that the loss is linear in; see `moec_forward` in `moec.h`

    Attributes:

    - `parameters`: dictionary of the weights by name, as NumPy arrays in the memory of the model
    - `batch`, `context`, `vocabulary`: sequences per call, tokens per sequence, vocabulary size
    - `accumulation`: micro-batches per optimizer step
    - `lock`: lock of the model

    Threads may share a model: its calls run one after the other. `parameters` and arrays without a copy are views of the
    memory of the model, which its next call overwrites; hold `lock` from a call until they have been read. A process after
    fork has its own copy of the model. A model is a context manager that closes it at the end.
    """

    def __init__(self, path=None, spec=None, sets=(), run=True, train=False, generate=True, batch=0, context=0, seed=0,
                 input_gradients=False, cotangent=None):
        if (path is None) == (spec is None):
            raise ValueError(f"expected either path or spec, got {'neither' if path is None else 'both'}")
        options = _arguments.texts("sets", sets)
        can = (_arguments.flag("run", run) * _library.CAN_RUN | _arguments.flag("train", train) * _library.CAN_TRAIN
               | _arguments.flag("generate", generate) * _library.CAN_GENERATE)
        if not can:
            raise ValueError("expected run, train or generate to be True, got False for each")
        load = _library.Load(None if spec is None else _arguments.text("spec", spec, 1),
                             (ctypes.c_char_p * max(len(options), 1))(*options), len(options), can,
                             _arguments.integer("batch", batch, 0, _arguments.INT_MAX),
                             _arguments.integer("context", context, 0, _arguments.INT_MAX),
                             _arguments.integer("seed", seed, 0, _arguments.SEED_MAX),
                             _arguments.flag("input_gradients", input_gradients),
                             _arguments.optional_text("cotangent", cotangent))
        self._handle = _Handle(None if path is None else _arguments.path("path", path), load)
        self.lock = threading.RLock()
        self.batch = shared.moec_batch(self._model)
        self.context = shared.moec_context(self._model)
        self.vocabulary = shared.moec_vocabulary(self._model)
        self.accumulation = shared.moec_accumulation(self._model)
        self.parameters = self.arrays(_library.WEIGHT)

    def _open(self):
        handle = self._handle
        if handle is None:
            raise ValueError("the model is closed")
        return handle

    @property
    def _model(self):
        return self._open().pointer

    def close(self):
        """Ends the use of the model. Its memory is released with the last array over it."""
        with self.lock:
            self._handle = None
            self.parameters = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _repr_html_(self):
        return _notebook._model_html(self)

    def __reduce_ex__(self, protocol):
        raise TypeError("a Model cannot be copied or pickled: save it and load the file, in the other process if there is one")

    def arrays(self, kind):
        """Returns all arrays of a kind by name, as views of the memory of the model. Kinds are constants of `moec.library`:
        `WEIGHT`, `GRADIENT`, `RUN_INPUT`, `RUN_OUTPUT`, `TRAIN_INPUT`, `TRAIN_OUTPUT`."""
        kind = _arguments.integer("kind", kind, _library.WEIGHT, _library.TRAIN_OUTPUT)
        found = {}
        with self.lock:
            for index in range(shared.moec_count(self._model, kind)):
                array = _library.Array()
                check(shared.moec_array(self._model, kind, index, ctypes.byref(array)))
                found[array.name.decode()] = _view(array, self._handle)
        return found

    def logits(self, tokens, copy=True):
        """Returns the logits `[batch, context, vocabulary]` of tokens `[batch, context]`. `copy=False` returns a view that the
        next call overwrites."""
        copy = _arguments.flag("copy", copy)
        array = _arguments.tokens("tokens", tokens, (self.batch, self.context), self.vocabulary)
        data = ctypes.c_void_p()
        with self.lock:
            check(shared.moec_logits(self._model, array.ctypes.data, ctypes.byref(data)))
            found = self.arrays(_library.RUN_OUTPUT)["logits"]
            return found.copy() if copy else found

    def _number(self, function, windows, rows):
        array = _arguments.tokens("windows", windows, (rows, self.context + 1), self.vocabulary)
        number = ctypes.c_double()
        check(function(self._model, array.ctypes.data, ctypes.byref(number)))
        return number.value

    def loss(self, windows):
        """Returns the loss in nats/token. `windows` is `[batch, context + 1]`: each token and the next one."""
        with self.lock:
            return self._number(shared.moec_loss, windows, self.batch)

    def gradients(self, windows, copy=True):
        """Returns the loss and a dictionary of the gradients by parameter name. `windows` is `[batch, context + 1]`.
        `copy=False` returns views that the next call overwrites."""
        copy = _arguments.flag("copy", copy)
        with self.lock:
            loss = self._number(shared.moec_gradients, windows, self.batch)
            found = self.arrays(_library.GRADIENT)
            return loss, {name: array.copy() for name, array in found.items()} if copy else found

    def step(self, windows):
        """Runs one step of the optimizer of the spec and returns the loss before it. `windows` is
        `[accumulation * batch, context + 1]`."""
        with self.lock:
            return self._number(shared.moec_step, windows, (self.accumulation or 1) * self.batch)

    def generate(self, prompt, tokens=0, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, repetition=1.0, seed=0, stop=None,
                 on_text=None, ignore_eos=False):
        """Returns the completion of the prompt.

        - `tokens`: maximum number of new tokens; 0 = 256
        - `temperature`: sampling temperature; 0 = greedy
        - `top_k`, `top_p`, `min_p`: restriction to likely tokens; 0, 1 and 0 = no restriction
        - `repetition`: repetition penalty; 1 = no penalty
        - `seed`: seed of the sampling
        - `stop`: text that ends the completion
        - `on_text`: function that receives each new piece of text as bytes; a true result ends the completion
        - `ignore_eos`: special tokens such as end of text do not end the completion
        """
        if on_text is not None and not callable(on_text):
            raise TypeError(f"on_text: expected a function, got {on_text!r}")
        received = bytearray()

        def receive(data, length):
            piece = ctypes.string_at(data, length) if length else b""
            received.extend(piece)
            return on_text and piece and on_text(piece)

        receiver = _library.Callback(receive)
        how = _library.Generation(_arguments.integer("tokens", tokens, 0, _arguments.LONG_MAX),
                                  _arguments.real("temperature", temperature, 0),
                                  _arguments.integer("top_k", top_k, 0, _arguments.LONG_MAX),
                                  _arguments.real("top_p", top_p, 0, 1, above=True), _arguments.real("min_p", min_p, 0, 1),
                                  _arguments.real("repetition", repetition, 0, above=True),
                                  _arguments.integer("seed", seed, 0, _arguments.SEED_MAX),
                                  _arguments.optional_text("stop", stop), _library.OnText(receiver), None, bool(ignore_eos))
        prompt, text = _arguments.text("prompt", prompt), ctypes.c_void_p()
        with self.lock, receiver:
            result = shared.moec_generate(self._model, prompt, ctypes.byref(how), ctypes.byref(text))
            shared.moec_release(text)
            message = shared.moec_message()
        receiver.check(result, message)
        return received.decode("utf-8", "replace")

    def encode(self, text):
        """Returns the tokens of a text as an int32 array."""
        given, handle = _arguments.utf8("text", text), self._open()  # which a close in another thread does not release
        data, count = ctypes.c_void_p(), ctypes.c_size_t()
        check(shared.moec_encode(handle.pointer, given, len(given), ctypes.byref(data), ctypes.byref(count)))
        try:
            return numpy.frombuffer(ctypes.string_at(data, 4 * count.value), dtype=numpy.int32).copy()
        finally:
            shared.moec_release(data)

    def decode(self, tokens):
        """Returns the text of a one-dimensional array of tokens."""
        array, handle = _arguments.tokens("tokens", tokens, (None,), 0), self._open()
        text, length = ctypes.c_void_p(), ctypes.c_size_t()
        check(shared.moec_decode(handle.pointer, array.ctypes.data, array.size, ctypes.byref(text), ctypes.byref(length)))
        try:
            return ctypes.string_at(text, length.value).decode("utf-8", "replace")
        finally:
            shared.moec_release(text)

    def save(self, path):
        """Writes the weights and the spec to a checkpoint that every command reads."""
        path = _arguments.path("path", path)
        with self.lock:
            check(shared.moec_save(self._model, path))


def load(path, **options):
    """Returns `Model(path, **options)`: a run directory, a checkpoint, or a spec, `FILE` or `FILE:MODEL`."""
    return Model(path, **options)


def compare(*folders, baseline=None):
    """Returns `Comparison(*folders, baseline=baseline)`."""
    return Comparison(*folders, baseline=baseline)


def load_ipython_extension(shell):
    """`%load_ext moec` in a notebook. Then a cell that begins with `%%moe NAME` is a spec: it is checked, and `NAME` becomes a
    `Spec`. `--set PATH=VALUE` in the same line sets an option."""
    shell.register_magic_function(_notebook._magic(shell), "cell", "moe")


def read_log(folder):
    """Returns the log of a run as a `pandas.DataFrame` with one row per line of `log.jsonl`. Requires pandas."""
    name = os.path.join(os.fsdecode(_arguments.path("folder", folder)), "log.jsonl")
    if os.path.exists(name) and not os.path.isfile(name):
        raise ValueError(f"folder: expected a run, but {name} is not a file")
    import pandas

    with open(name, encoding="utf-8") as log:
        return pandas.json_normalize([json.loads(line) for line in log if line.endswith("\n")])
