"""libmoec.so, with what runtime/library/moec.h declares."""

import ctypes
import ctypes.util
import os
import pathlib
import signal
import threading

# Equal to MOEC_VERSION in runtime/base/build.h.
__version__ = "0.2.0"

CAN_RUN, CAN_TRAIN, CAN_GENERATE = 1, 2, 4
WEIGHT, GRADIENT, RUN_INPUT, RUN_OUTPUT, TRAIN_INPUT, TRAIN_OUTPUT = range(6)


class Load(ctypes.Structure):
    _fields_ = [("spec", ctypes.c_char_p), ("sets", ctypes.POINTER(ctypes.c_char_p)), ("set_count", ctypes.c_int),
                ("can", ctypes.c_int), ("batch", ctypes.c_long), ("context", ctypes.c_long), ("seed", ctypes.c_uint64),
                ("input_gradients", ctypes.c_int), ("cotangent", ctypes.c_char_p)]


class Array(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("axes", ctypes.c_char_p), ("data", ctypes.c_void_p), ("is_int", ctypes.c_int),
                ("rank", ctypes.c_int), ("shape", ctypes.c_long * 10)]


# A result other than 0 ends the text.
OnText = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Generation(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_long), ("temperature", ctypes.c_double), ("top_k", ctypes.c_long),
                ("top_p", ctypes.c_double), ("min_p", ctypes.c_double), ("repetition", ctypes.c_double),
                ("seed", ctypes.c_uint64), ("stop", ctypes.c_char_p), ("on_text", OnText), ("context", ctypes.c_void_p),
                ("ignore_eos", ctypes.c_int)]


class ProgressFields(ctypes.Structure):
    _fields_ = [("step", ctypes.c_long), ("steps", ctypes.c_long), ("loss", ctypes.c_double), ("grad_norm", ctypes.c_double),
                ("lr", ctypes.c_double), ("val_loss", ctypes.c_double), ("evaluated", ctypes.c_int)]


# A result other than 0 stops the run.
OnStep = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ProgressFields))


class Training(ctypes.Structure):
    _fields_ = [("spec", ctypes.c_char_p), ("sets", ctypes.POINTER(ctypes.c_char_p)), ("set_count", ctypes.c_int),
                ("data", ctypes.c_char_p), ("val_data", ctypes.c_char_p), ("tokenizer", ctypes.c_char_p), ("out", ctypes.c_char_p),
                ("init_from", ctypes.c_char_p), ("init_missing", ctypes.c_int), ("device", ctypes.c_char_p),
                ("steps", ctypes.c_long), ("seed", ctypes.c_uint64), ("stop_after", ctypes.c_long),
                ("diverged_above", ctypes.c_double), ("resume", ctypes.c_int), ("tensorboard", ctypes.c_int),
                ("on_step", OnStep), ("context", ctypes.c_void_p)]


def _candidates():
    named = os.environ.get("MOEC_LIBRARY")
    if named:
        yield named
        return
    here = pathlib.Path(__file__).resolve()
    yield str(here.parent / "lib" / "libmoec.so")  # in a wheel
    yield from (str(folder / "build" / "libmoec.so") for folder in here.parents)
    yield from (str(folder / "build" / "libmoec.so") for folder in (pathlib.Path.cwd(), *pathlib.Path.cwd().parents))
    yield "/usr/local/lib/libmoec.so"
    found = ctypes.util.find_library("moec")
    if found:
        yield found


def _open():
    for name in _candidates():
        if os.path.sep not in name or os.path.exists(name):
            try:
                return ctypes.CDLL(name)
            except OSError as error:
                raise ImportError(f"cannot load libmoec.so: {error}") from None
    raise ImportError("cannot find libmoec.so: run make or make install, or set MOEC_LIBRARY to its path")


def _declare(library):
    model, text = ctypes.c_void_p, ctypes.c_char_p
    pointer = ctypes.POINTER
    tokens, number = ctypes.c_void_p, pointer(ctypes.c_double)
    kinds = {
        "moec_version": (text,),
        "moec_message": (text,),
        "moec_load": (ctypes.c_int, text, pointer(Load), pointer(model)),
        "moec_free": (None, model),
        "moec_save": (ctypes.c_int, model, text),
        "moec_batch": (ctypes.c_long, model),
        "moec_context": (ctypes.c_long, model),
        "moec_vocabulary": (ctypes.c_long, model),
        "moec_accumulation": (ctypes.c_long, model),
        "moec_logits": (ctypes.c_int, model, tokens, pointer(ctypes.c_void_p)),
        "moec_loss": (ctypes.c_int, model, tokens, number),
        "moec_gradients": (ctypes.c_int, model, tokens, number),
        "moec_step": (ctypes.c_int, model, tokens, number),
        "moec_count": (ctypes.c_int, model, ctypes.c_int),
        "moec_array": (ctypes.c_int, model, ctypes.c_int, ctypes.c_int, pointer(Array)),
        "moec_bind": (ctypes.c_int, model, ctypes.c_int, ctypes.c_int, ctypes.c_void_p),
        "moec_run": (ctypes.c_int, model, ctypes.c_uint64),
        "moec_differentiate": (ctypes.c_int, model, ctypes.c_uint64),
        "moec_tape_bytes": (ctypes.c_size_t, model),
        "moec_forward": (ctypes.c_int, model, ctypes.c_uint64, ctypes.c_void_p),
        "moec_backward": (ctypes.c_int, model, ctypes.c_uint64, ctypes.c_void_p),
        "moec_train": (ctypes.c_int, text, pointer(Training)),
        "moec_generate": (ctypes.c_int, model, text, pointer(Generation), pointer(ctypes.c_void_p)),
        "moec_encode": (ctypes.c_int, model, text, ctypes.c_size_t, pointer(ctypes.c_void_p), pointer(ctypes.c_size_t)),
        "moec_decode": (ctypes.c_int, model, tokens, ctypes.c_size_t, pointer(ctypes.c_void_p), pointer(ctypes.c_size_t)),
        "moec_release": (None, ctypes.c_void_p),
    }
    for name, (result, *arguments) in kinds.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{library._name} has no function {name}: build libmoec.so and install this package from the "
                              "same version of moec") from None
        function.restype, function.argtypes = result, arguments
    version = library.moec_version().decode()
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise ImportError(f"{library._name} has version {version}, but this package has version {__version__}: install both from "
                          "the same version of moec")
    return library


shared = _declare(_open())


class Error(Exception):
    """An error of the library, with its message."""


def check(result, message=None):
    """Raises Error with the message of a call that failed, by default the last one of this thread."""
    if result:
        raise Error((message or shared.moec_message()).decode("utf-8", "replace").strip())


class Callback:
    """Calls `receive(*arguments)` from C; a true result ends the operation. An exception of it or of a signal handler cannot pass
    through C: it also ends the operation, and `check` raises it."""

    def __init__(self, receive):
        self.error, self._receive, self._handlers = None, receive, {}

    def __call__(self, context, *arguments):
        try:
            wants_end = bool(self._receive(*arguments))
            return int(wants_end or self.error is not None)
        except BaseException as error:
            self.error = error
            return 1

    def _handle(self, number, frame):
        try:
            self._handlers[number](number, frame)
        except BaseException as error:
            self.error = error

    def __enter__(self):
        """Python runs signal handlers in the main thread alone, where __call__ would begin with their exceptions."""
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()
                              if callable(signal.getsignal(number))}
            for number in self._handlers:
                signal.signal(number, self._handle)
        return self

    def __exit__(self, *error):
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def check(self, result, message):
        """Raises the exception of the callback, else the error of the call."""
        if self.error is not None:
            raise self.error
        check(result, message)
