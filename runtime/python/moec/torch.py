"""A compiled layer as a module of PyTorch, on the CPU."""

from __future__ import annotations

import ctypes

import torch

from . import Model
from . import library as _library
from .library import check, shared

_SPEC = """{uses}
layer module_in_torch {{
  option inner: layer = {layer}
  option train: layer = train {{ batch = {batch}, context = {context} }}
  axis d = {dim}
  sequence s = train.context
  input x[s, d]: real
  input dy[s, d]: real
  y[s, d] = inner(x)
  output y
  loss = sum[batch, s, d] y[s, d] * dy[s, d]
}}

model module = module_in_torch {{ inner = {{ {options} }} }}
"""


class _Tape:
    """What a forward leaves for its backward. The memory goes back to where the next one takes it from."""

    def __init__(self, free, size):
        self._free = free
        self.memory = free.pop() if free else torch.empty(size, dtype=torch.uint8)

    def __del__(self):
        self._free.append(self.memory)


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(context, module, x, *parameters):
        context.module, context.tape = module, module._begin(x)
        y = context.tape.y[: x.shape[0]] if x.shape[0] < module.batch else context.tape.y.detach()
        context.save_for_backward(x, y, *parameters)  # none of which may have changed when backward reads it
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, dy):
        context.saved_tensors
        return (None, *context.module._backward(context.tape, dy))


def _place(model, kind, name):
    for place in range(shared.moec_count(model._model, kind)):
        array = _library.Array()
        check(shared.moec_array(model._model, kind, place, ctypes.byref(array)))
        if array.name.decode() == name:
            return place
    raise KeyError(name)


class Module(torch.nn.Module):
    """y = layer(x) for x [up to batch, context, dim].

    layer: a layer of the standard library or of `text`, with one input and one output [s, d]; use: the files that it stands
    in; options: as they stand in a record, "heads.q = 4, gate = { at = v }". The parameters lie in the memory of the compiled
    program, so that an optimizer of PyTorch changes what it computes with. They have the names that a spec gives them, a '.'
    as '_'.
    """

    def __init__(self, layer, dim, batch, context, use=(), options="", text="", seed=0):
        super().__init__()
        uses = [use] if isinstance(use, str) else list(use)
        spec = _SPEC.format(uses="\n".join(f"use {name}" for name in ["train", *uses]) + "\n" + text, layer=layer, dim=dim,
                            batch=batch, context=context, options=options)
        self._model = Model(spec=spec, train=True, generate=False, seed=seed, input_gradients=True, cotangent="dy")
        self._names = []
        for name, array in self._model.parameters.items():
            self._names.append(name.removeprefix("inner.").replace(".", "_"))
            self.register_parameter(self._names[-1], torch.nn.Parameter(torch.from_numpy(array)))
        self._gradients = [torch.from_numpy(array) for array in self._model.arrays(_library.GRADIENT).values()]
        self._shape = (self._model.batch, context, dim)
        run, train = _library.RUN_INPUT, _library.TRAIN_INPUT
        self._x, self._y = _place(self._model, run, "x"), _place(self._model, _library.RUN_OUTPUT, "y")
        self._train_x, self._train_dy = _place(self._model, train, "x"), _place(self._model, train, "dy")
        self._train_y = _place(self._model, _library.TRAIN_OUTPUT, "y")
        self._dx = _place(self._model, _library.TRAIN_OUTPUT, "gradient:x")
        self.batch, self._seed, self._free = self._model.batch, seed, []

    def _apply(self, function, recurse=True):
        """The parameters stay where they are: what would move them is refused."""
        for parameter in self.parameters():
            if function(parameter.detach()).data_ptr() != parameter.data_ptr():
                raise RuntimeError("a compiled layer stays in float32 on the CPU")
        return super()._apply(function, recurse)

    def _whole(self, x):
        """x as the program reads it: contiguous, as many sequences as it was compiled for."""
        if x.dtype != torch.float32 or x.device.type != "cpu":
            raise TypeError(f"a compiled layer takes float32 on the CPU, not {x.dtype} on {x.device}")
        if x.dim() != 3 or x.shape[1:] != self._shape[1:] or not 0 < x.shape[0] <= self._shape[0]:
            raise ValueError(f"a compiled layer takes [up to {self._shape[0]}, {self._shape[1]}, {self._shape[2]}], not {list(x.shape)}")
        x = x.detach().contiguous()
        if x.shape[0] == self._shape[0]:
            return x
        return torch.cat([x, x.new_zeros(self._shape[0] - x.shape[0], *self._shape[1:])])

    def _bind(self, kind, place, tensor):
        check(shared.moec_bind(self._model._model, kind, place, tensor.data_ptr()))

    def _forward(self, x):
        whole, y = self._whole(x), torch.empty(self._shape)
        self._bind(_library.RUN_INPUT, self._x, whole)
        self._bind(_library.RUN_OUTPUT, self._y, y)
        check(shared.moec_run(self._model._model, 0))
        return y[: x.shape[0]]

    def _begin(self, x):
        tape = _Tape(self._free, shared.moec_tape_bytes(self._model._model))
        tape.x, tape.y = self._whole(x), torch.empty(self._shape)
        self._seed += 1  # of dropout: another one each time
        tape.seed = self._seed
        self._first(tape)
        return tape

    def _first(self, tape):
        self._bind(_library.TRAIN_INPUT, self._train_x, tape.x)
        self._bind(_library.TRAIN_OUTPUT, self._train_y, tape.y)
        check(shared.moec_forward(self._model._model, tape.seed, tape.memory.data_ptr()))
        tape.spent = False

    def _backward(self, tape, dy):
        if tape.spent:  # asked again, of a graph that was retained
            self._first(tape)
        whole, dx = self._whole(dy), torch.empty(self._shape)
        self._bind(_library.TRAIN_INPUT, self._train_x, tape.x)
        self._bind(_library.TRAIN_INPUT, self._train_dy, whole)
        self._bind(_library.TRAIN_OUTPUT, self._train_y, tape.y)
        self._bind(_library.TRAIN_OUTPUT, self._dx, dx)
        tape.spent = True
        check(shared.moec_backward(self._model._model, tape.seed, tape.memory.data_ptr()))
        return dx[: dy.shape[0]], *[gradient.clone() for gradient in self._gradients]

    def forward(self, x):
        parameters = [getattr(self, name) for name in self._names]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in [x, *parameters]):
            return _Apply.apply(self, x, *parameters)
        return self._forward(x)
