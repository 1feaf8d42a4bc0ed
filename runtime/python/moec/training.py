"""Training runs."""

import ctypes
import typing

from . import arguments as _arguments
from . import library as _library
from .library import shared


class Progress(typing.NamedTuple):
    """State of a run after an optimizer step: `step`, `steps`, `loss`, `grad_norm`, `lr`, `val_loss` and `evaluated`. The losses
    are in nats/token. `val_loss` is that of the last evaluation, or NaN, and `evaluated` is true if it was computed after this
    step."""

    step: int
    steps: int
    loss: float
    grad_norm: float
    lr: float
    val_loss: float
    evaluated: bool


def train(path=None, *, data, out, spec=None, sets=(), val_data=None, tokenizer=None, init_from=None, init_missing=False,
          device="cpu", steps=0, seed=0, stop_after=0, diverged_above=0.0, resume=False, tensorboard=False, on_step=None):
    """Trains a model as `moec train` does, with the same losses and files, and returns the `Progress` of the last step, or `None`
    if no step was run. `moec.load(out)` loads the result.

    - `path`: a spec, `FILE` or `FILE:MODEL`
    - `data`: path of the training data: text, token files or examples, as `--data` of the command
    - `out`: run directory, which is created
    - `spec`: text of a spec, instead of a path
    - `sets`: list of options such as `"train.lr=1e-3"`
    - `val_data`: path of the validation data; `None` = the end of the training data
    - `tokenizer`: path of a `tokenizer.json`; `None` = the tokens of a text are its bytes
    - `init_from`: run or checkpoint with the initial weights
    - `init_missing`: random initialization of parameters that `init_from` lacks
    - `device`: `cpu`, `cuda` or `cuda:N`
    - `steps`: total number of optimizer steps; 0 = `train.steps` of the spec
    - `seed`: seed of weights, data order and dropout; 0 = `train.seed` of the spec
    - `stop_after`: step to stop after; 0 = the last one
    - `diverged_above`: loss above which the run raises an error; 0 = none
    - `resume`: continue from the last checkpoint in `out`, if there is one
    - `tensorboard`: also write the log for TensorBoard
    - `on_step`: function that receives the `Progress` of each step; a true result stops the run

    A run that `on_step`, one of its exceptions or Ctrl-C stops writes a checkpoint, and `resume=True` continues it. If the loss is
    not finite, `moec.Error` is raised and the last checkpoint is unchanged.
    """
    if (path is None) == (spec is None):
        raise ValueError(f"expected either path or spec, got {'neither' if path is None else 'both'}")
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step: expected a function, got {on_step!r}")
    last = None

    def receive(fields):
        nonlocal last
        values = fields.contents
        last = Progress(values.step, values.steps, values.loss, values.grad_norm, values.lr, values.val_loss,
                        bool(values.evaluated))
        return on_step and on_step(last)

    def optional_path(name, value):
        return None if value is None else _arguments.path(name, value)

    options = _arguments.texts("sets", sets)
    receiver = _library.Callback(receive)
    how = _library.Training(None if spec is None else _arguments.text("spec", spec, 1),
                            (ctypes.c_char_p * max(len(options), 1))(*options), len(options), _arguments.path("data", data),
                            optional_path("val_data", val_data), optional_path("tokenizer", tokenizer),
                            _arguments.path("out", out), optional_path("init_from", init_from),
                            _arguments.flag("init_missing", init_missing), _arguments.text("device", device, 1),
                            _arguments.integer("steps", steps, 0, _arguments.LONG_MAX),
                            _arguments.integer("seed", seed, 0, _arguments.LONG_MAX),
                            _arguments.integer("stop_after", stop_after, 0, _arguments.LONG_MAX),
                            _arguments.real("diverged_above", diverged_above, 0), _arguments.flag("resume", resume),
                            _arguments.flag("tensorboard", tensorboard), _library.OnStep(receiver))
    operand = optional_path("path", path)
    with receiver:
        result = shared.moec_train(operand, ctypes.byref(how))
        message = shared.moec_message()
    receiver.check(result, message)
    return last
