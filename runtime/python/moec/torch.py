"""A compiled layer as a module of PyTorch, on the CPU."""

from __future__ import annotations

import ctypes

import torch

from . import Model
from . import arguments as _arguments
from . import library as _library
from .library import check, shared

_SPEC = """{uses}
layer module_in_torch {{
  option inner: layer = {layer}
  option train: layer = train {{ batch = {batch}, context = {context} }}
  axis d = {dim}
  sequence s = train.context_length
  input x[s, d]: float
  input dy[s, d]: float
  y[s, d] = inner(x)
  output y
  loss = sum[batch, s, d] y[s, d] * dy[s, d]
}}

model module = module_in_torch {{ inner = {{ {options} }} }}
"""


class _Tape:
    """The memory that a forward pass keeps for its backward pass; later forward passes reuse it."""

    def __init__(self, free, size):
        self._free = free
        try:
            self.memory = free.pop()
        except IndexError:
            self.memory = torch.empty(size, dtype=torch.uint8)

    def __del__(self):
        self._free.append(self.memory)


@torch.autograd.function.once_differentiable
def _backward(context, dy):
    context.saved_tensors
    return (None, *context.module._backward(context.tape, dy))


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(context, module, x, *parameters):
        context.module, context.tape = module, module._begin(x)
        y = context.tape.y[: x.shape[0]] if x.shape[0] < module.batch else context.tape.y.detach()
        context.save_for_backward(x, y, *parameters)  # backward checks that none of them has changed
        return y

    @staticmethod
    def backward(context, dy):
        """With create_graph the gradients depend on x and the parameters as well, also if dy is constant: an input that
        requires a gradient makes a second derivative an error."""
        return _backward(context, dy if dy.requires_grad or not torch.is_grad_enabled() else dy.detach().requires_grad_())


def _index(model, kind, name):
    for index in range(shared.moec_count(model._model, kind)):
        array = _library.Array()
        check(shared.moec_array(model._model, kind, index, ctypes.byref(array)))
        if array.name.decode() == name:
            return index
    raise KeyError(name)


def _text(name, value, least=0):
    _arguments.text(name, value, least)
    return value


def _rebuild(options, weights, state):
    """A copy of a module, as copy and pickle call it."""
    module = Module(**options)
    with torch.no_grad():
        for (_, parameter), (weight, requires_grad) in zip(module.named_parameters(), weights):
            parameter.copy_(weight)
            parameter.requires_grad_(requires_grad)
    module._seed, training = state
    return module.train(training)


class Module(torch.nn.Module):
    """A compiled layer: `y = layer(x)` for `x` of shape `[up to batch, context, dim]`.

    - `layer`: name of a layer with one input and one output `[s, d]`
    - `dim`, `batch`, `context`: width, maximum number of sequences, positions per sequence
    - `use`: file or list of files that declare the layer
    - `options`: text of a record, such as `"heads.q = 4, gate = { at = v }"`
    - `text`: declarations, instead of a file
    - `seed`: seed of the initial weights

    The parameters are memory of the compiled program, so it computes with the values that an optimizer of PyTorch writes. They
    have the names of the spec with `_` for `.`. Threads may share a module: its calls run one after the other.
    """

    def __init__(self, layer, dim, batch, context, use=(), options="", text="", seed=0):
        super().__init__()
        uses = [_text("use", use, 1)] if isinstance(use, str) else [name.decode() for name in _arguments.texts("use", use)]
        dim, batch, context = (_arguments.integer(name, value, 1, _arguments.INT_MAX)
                               for name, value in (("dim", dim), ("batch", batch), ("context", context)))
        seed = _arguments.integer("seed", seed, 0, _arguments.SEED_MAX)
        spec = _SPEC.format(uses="\n".join(f"use {name}" for name in ["train", *uses]) + "\n" + _text("text", text),
                            layer=_text("layer", layer, 1), dim=dim, batch=batch, context=context,
                            options=_text("options", options))
        self._options = {"layer": layer, "dim": dim, "batch": batch, "context": context, "use": uses, "options": options,
                         "text": text, "seed": seed}
        self._model = Model(spec=spec, train=True, generate=False, seed=seed, input_gradients=True, cotangent="dy")
        self._addresses = {}
        for name, array in self._model.parameters.items():
            name = name.removeprefix("inner.").replace(".", "_")
            self._addresses[name] = array.ctypes.data
            self.register_parameter(name, torch.nn.Parameter(torch.from_numpy(array)))
        self._gradients = [torch.from_numpy(array) for array in self._model.arrays(_library.GRADIENT).values()]
        self._shape = (self._model.batch, context, dim)
        run, train = _library.RUN_INPUT, _library.TRAIN_INPUT
        self._x, self._y = _index(self._model, run, "x"), _index(self._model, _library.RUN_OUTPUT, "y")
        self._train_x, self._train_dy = _index(self._model, train, "x"), _index(self._model, train, "dy")
        self._train_y = _index(self._model, _library.TRAIN_OUTPUT, "y")
        self._dx = _index(self._model, _library.TRAIN_OUTPUT, "gradient:x")
        self.batch, self._seed, self._free = self._model.batch, seed, []

    def __reduce_ex__(self, protocol):
        """A copy has its own compiled program and the same weights, but no hooks and no gradients."""
        weights = [(parameter.detach().clone(), parameter.requires_grad) for parameter in self._parameters_in_memory()]
        return _rebuild, (self._options, weights, (self._seed, self.training))

    def _apply(self, function, recurse=True):
        """Refuses to move the parameters out of the memory of the program. The function is tried on copies: some functions
        change the memory of a tensor."""
        for parameter in self.parameters():
            copy = parameter.detach().clone()
            address = copy.data_ptr()
            moved = function(copy)
            if moved.data_ptr() != address or moved.dtype != copy.dtype or moved.device != copy.device:
                raise RuntimeError("a compiled layer stays in float32 on the CPU")
        return super()._apply(function, recurse) if recurse is not True else super()._apply(function)

    def _parameters_in_memory(self):
        found = []
        for name, address in self._addresses.items():
            parameter = getattr(self, name)
            if parameter.data_ptr() != address:
                raise RuntimeError(f"the parameter {name} was replaced, but the compiled layer reads its own memory: copy values "
                                   f"into the original parameter with copy_")
            found.append(parameter)
        return found

    def _check(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"x: expected a tensor, got {type(x).__name__}")
        if x.dtype != torch.float32 or x.device.type != "cpu" or x.layout != torch.strided:
            raise TypeError(f"x: expected a dense tensor of torch.float32 on the CPU, got {x.dtype} on {x.device}, {x.layout}")
        if x.dim() != 3 or x.shape[1:] != self._shape[1:] or not 0 < x.shape[0] <= self._shape[0]:
            raise ValueError(f"x: expected the shape [up to {self._shape[0]}, {self._shape[1]}, {self._shape[2]}], got "
                             f"{list(x.shape)}")

    def _whole(self, x):
        """A contiguous x with as many sequences as the program was compiled for."""
        x = x.detach().resolve_neg().contiguous()
        if x.shape[0] == self._shape[0]:
            return x
        return torch.cat([x, x.new_zeros(self._shape[0] - x.shape[0], *self._shape[1:])])

    def _bind(self, kind, index, tensor):
        check(shared.moec_bind(self._model._model, kind, index, tensor.data_ptr()))

    def _forward(self, x):
        whole, y = self._whole(x), torch.empty(self._shape)
        with self._model.lock:
            self._bind(_library.RUN_INPUT, self._x, whole)
            self._bind(_library.RUN_OUTPUT, self._y, y)
            check(shared.moec_run(self._model._model, 0))
        return y[: x.shape[0]]

    def _begin(self, x):
        tape = _Tape(self._free, shared.moec_tape_bytes(self._model._model))
        tape.x, tape.y = self._whole(x), torch.empty(self._shape)
        with self._model.lock:
            self._seed = (self._seed + 1) & _arguments.SEED_MAX  # of dropout: each call has its own
            tape.seed = self._seed
            self._first(tape)
        return tape

    def _first(self, tape):
        self._bind(_library.TRAIN_INPUT, self._train_x, tape.x)
        self._bind(_library.TRAIN_OUTPUT, self._train_y, tape.y)
        check(shared.moec_forward(self._model._model, tape.seed, tape.memory.data_ptr()))
        tape.spent = False

    def _backward(self, tape, dy):
        whole, dx = self._whole(dy), torch.empty(self._shape)
        with self._model.lock:
            if tape.spent:  # a second backward pass of a retained graph
                self._first(tape)
            self._bind(_library.TRAIN_INPUT, self._train_x, tape.x)
            self._bind(_library.TRAIN_INPUT, self._train_dy, whole)
            self._bind(_library.TRAIN_OUTPUT, self._train_y, tape.y)
            self._bind(_library.TRAIN_OUTPUT, self._dx, dx)
            tape.spent = True
            check(shared.moec_backward(self._model._model, tape.seed, tape.memory.data_ptr()))
            return dx[: dy.shape[0]], *[gradient.clone() for gradient in self._gradients]

    def forward(self, x):
        """Returns `layer(x)` as a float32 tensor on the CPU, with a graph for `backward` if a gradient is required."""
        self._check(x)
        parameters = self._parameters_in_memory()
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in [x, *parameters]):
            return _Apply.apply(self, x, *parameters)
        return self._forward(x)
