"""Wrong arguments of every function of the package: wrong_arguments.py FOLDER, which contains a run. Each must raise TypeError or
ValueError with the name of the argument."""

import copy
import math
import os
import pickle
import sys

import numpy
import torch

import moec
import moec.torch
from moec import library

folder = sys.argv[1]
RUN = folder + "/run"
count = 0


def refused(kind, words, call):
    global count
    count += 1
    try:
        result = call()
    except kind as error:
        assert type(error) is kind, (words, type(error), error)
        assert all(word in str(error) for word in words.split("|")), (words, str(error))
    else:
        raise AssertionError(f"{words}: no error, but {result!r}")


def loads():
    for name in ("batch", "context"):
        for value in (-1, 2**31, 2**40, 2**70):
            refused(ValueError, f"{name}|expected|{value}", lambda: moec.load(RUN, **{name: value}))
        for value in (1.5, True, "2", 1j, None, math.nan, numpy.float32(2), numpy.array([2])):
            refused(TypeError, f"{name}|expected an integer", lambda: moec.load(RUN, **{name: value}))
    assert moec.load(RUN, batch=numpy.int64(3)).batch == 3
    for value in (-1, 2**64):
        refused(ValueError, "seed", lambda: moec.load(RUN, seed=value))
    for name in ("run", "train", "generate", "input_gradients"):
        for value in (2, "yes", None):
            refused(TypeError, f"{name}|expected True or False", lambda: moec.load(RUN, **{name: value}))
    refused(ValueError, "run, train or generate", lambda: moec.load(RUN, run=False, generate=False))
    refused(ValueError, "both", lambda: moec.Model(RUN, spec="model m = nothing {}"))
    refused(ValueError, "neither", moec.Model)
    for value in (3, 1.5, True, [RUN]):
        refused(TypeError, "path", lambda: moec.load(value))
    refused(ValueError, "path|not empty", lambda: moec.load(""))
    refused(ValueError, "path|NUL", lambda: moec.load(RUN + "\0x"))
    refused(TypeError, "spec", lambda: moec.Model(spec=b"model m = nothing {}"))
    refused(ValueError, "spec|not empty", lambda: moec.Model(spec=""))
    refused(ValueError, "spec|surrogate", lambda: moec.Model(spec="\ud800"))
    refused(TypeError, "sets|list", lambda: moec.load(RUN, sets="train.batch_size=2"))
    refused(TypeError, "sets[1]", lambda: moec.load(RUN, sets=["train.batch_size=2", 3]))
    refused(TypeError, "cotangent", lambda: moec.load(RUN, cotangent=1))
    refused(moec.Error, "MOEC_CAN_TRAIN", lambda: moec.load(RUN, cotangent="dy"))
    refused(TypeError, "folder", lambda: moec.read_log(3))
    refused(FileNotFoundError, "nothing", lambda: moec.read_log(folder + "/nothing"))
    os.makedirs(folder + "/pipe")
    os.mkfifo(folder + "/pipe/log.jsonl")
    refused(ValueError, "folder|not a file", lambda: moec.read_log(folder + "/pipe"))


def runs():
    train = lambda **options: moec.train(**{"path": folder + "/small.moe", "data": folder + "/text", "out": folder + "/new",
                                            **options})
    refused(ValueError, "both", lambda: train(spec="model m = nothing {}"))
    refused(ValueError, "neither", lambda: train(path=None))
    for name in ("path", "data", "out", "val_data", "tokenizer", "init_from"):
        for value in (3, True, [RUN]):
            refused(TypeError, f"{name}|expected a path", lambda: train(**{name: value}))
        refused(ValueError, f"{name}|not empty", lambda: train(**{name: ""}))
    for name in ("steps", "seed", "stop_after"):
        for value in (-1, 2**63):
            refused(ValueError, name, lambda: train(**{name: value}))
        refused(TypeError, f"{name}|expected an integer", lambda: train(**{name: 1.0}))
    for name in ("init_missing", "resume", "tensorboard"):
        refused(TypeError, f"{name}|True or False", lambda: train(**{name: 1}))
    refused(ValueError, "diverged_above", lambda: train(diverged_above=-1))
    refused(TypeError, "on_step", lambda: train(on_step=3))
    refused(moec.Error, "init_missing requires init_from", lambda: train(init_missing=True))
    refused(moec.Error, "unknown device 'gpu'", lambda: train(device="gpu"))
    refused(moec.Error, "already contains a run", lambda: train(out=RUN))
    assert not os.path.exists(folder + "/new")


def tokens():
    model = moec.load(RUN, train=True)
    shape = (model.batch, model.context + 1)
    good = numpy.zeros(shape, numpy.int32)
    functions = [("tokens", model.logits, good[:, 1:]), ("windows", model.loss, good), ("windows", model.gradients, good),
                    ("windows", model.step, good)]
    for name, function, array in functions:
        for value in (2**40, 2**32, -1, 256):
            wrong = array.astype(numpy.int64)
            wrong[1, 2] = value
            refused(ValueError, f"{name}|from 0 to 255|{value} at [1, 2]", lambda: function(wrong))
            refused(ValueError, f"{name}|{value}", lambda: function(wrong.tolist()))
        for kind in (numpy.float32, numpy.float64, bool, complex, object, "U3"):
            refused(TypeError, f"{name}|expected integers", lambda: function(array.astype(kind)))
        for wrong in (array[:1], array[:, :-1], array[0], array[None], numpy.zeros((0, 3), int)):
            refused(ValueError, f"{name}|expected the shape", lambda: function(wrong))
        for wrong in (None, "text", 3.5, b"ab", {}):
            refused(TypeError, f"{name}|expected integers", lambda: function(wrong))
        refused(ValueError, name, lambda: function([[1], [2, 3]]))
        refused(TypeError, name, lambda: function(torch.zeros(array.shape)))
        for kind in (numpy.int8, numpy.uint8, numpy.int64, numpy.uint64, ">i4"):
            function(array.astype(kind))
        function(numpy.asfortranarray(array))
        function(torch.zeros(array.shape, dtype=torch.int64))
    refused(TypeError, "copy|True or False", lambda: model.logits(good[:, 1:], copy=1))
    two = moec.load(RUN, train=True, generate=False, sets=["train.gradient_accumulation_steps=2"])
    assert two.accumulation == 2
    refused(ValueError, "windows|expected the shape [4, 17], got [2, 17]", lambda: two.step(good))
    two.step(numpy.concatenate([good, good]))
    refused(ValueError, "kind", lambda: model.arrays(6))
    refused(ValueError, "kind", lambda: model.arrays(-1))
    refused(TypeError, "kind", lambda: model.arrays("weights"))
    refused(TypeError, "path", lambda: model.save(None))
    refused(ValueError, "path|NUL", lambda: model.save("a\0b"))
    refused(moec.Error, folder, lambda: model.save(folder + "/nothing/at/all"))
    refused(moec.Error, "MOEC_CAN_TRAIN", lambda: moec.load(RUN).gradients(good))
    only = moec.load(RUN, run=False)
    refused(moec.Error, "MOEC_CAN_RUN", lambda: only.loss(numpy.zeros((only.batch, only.context + 1), int)))


def texts():
    model = moec.load(RUN)
    for name in ("temperature", "top_p", "min_p", "repetition"):
        for value in (math.nan, math.inf, -math.inf, -0.5, 10**400):
            refused(ValueError, f"{name}|finite", lambda: model.generate("a", **{name: value}))
        for value in ("1", 1j, True, None, [1], numpy.array([0.5])):
            refused(TypeError, f"{name}|expected a number", lambda: model.generate("a", **{name: value}))
    for name, value in (("top_p", 0), ("top_p", 1.5), ("min_p", 1.5), ("repetition", 0)):
        refused(ValueError, name, lambda: model.generate("a", **{name: value}))
    for name in ("tokens", "top_k", "seed"):
        for value in (-1, 2**64):
            refused(ValueError, name, lambda: model.generate("a", **{name: value}))
        for value in (1.0, True, "3", None, 1j):
            refused(TypeError, f"{name}|expected an integer", lambda: model.generate("a", **{name: value}))
    for value in (b"a", None, 3, ["a"]):
        refused(TypeError, "prompt|expected a str", lambda: model.generate(value))
        refused(TypeError, "text|expected a str", lambda: model.encode(value))
    refused(ValueError, "prompt|NUL", lambda: model.generate("a\0b"))
    refused(ValueError, "prompt|surrogate", lambda: model.generate("\udc80"))
    refused(ValueError, "text|surrogate", lambda: model.encode("\udc80"))
    refused(moec.Error, "prompt is empty", lambda: model.generate(""))
    refused(moec.Error, "context", lambda: model.generate("a", tokens=2**62))
    refused(ValueError, "stop|not empty", lambda: model.generate("a", stop=""))
    refused(TypeError, "stop", lambda: model.generate("a", stop=["b"]))
    refused(TypeError, "on_text", lambda: model.generate("a", on_text=3))
    for value in ([1.5], [True], [1j], ["a"], None, 3.0):
        refused(TypeError, "tokens|expected integers", lambda: model.decode(value))
    refused(ValueError, "tokens|expected the shape [any]", lambda: model.decode(3))
    refused(ValueError, "tokens|expected the shape [any]", lambda: model.decode([[3]]))
    refused(ValueError, "tokens|2147483648", lambda: model.decode([2**31]))
    refused(moec.Error, "token 1 is 256", lambda: model.decode([1, 256]))
    assert model.decode(model.encode("a\0b")) == "a\0b" and model.decode([]) == "" and model.encode("").size == 0
    assert model.generate("a", tokens=numpy.int8(3), temperature=numpy.float32(0.5), top_p=1) is not None


def lives():
    """Closed models, arrays that are used after the model is closed, copies."""
    model = moec.load(RUN, train=True)
    before = {name: array.copy() for name, array in model.parameters.items()}
    kept, logits = dict(model.parameters), model.logits(numpy.zeros((model.batch, model.context), int), copy=False)
    values = logits.copy()
    model.close()
    model.close()
    for call in (lambda: model.generate("a"), lambda: model.encode("a"), lambda: model.decode([1]), lambda: model.save("a"),
                 lambda: model.arrays(library.WEIGHT), lambda: model.logits(numpy.zeros((model.batch, model.context), int))):
        refused(ValueError, "the model is closed", call)
    del model
    others = [moec.load(RUN) for _ in range(3)]
    assert all(numpy.array_equal(kept[name], before[name]) for name in before) and numpy.array_equal(logits, values)
    with others[0] as other:
        other.generate("a", tokens=1)
    refused(ValueError, "closed", lambda: others[0].generate("a"))
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        refused(TypeError, "cannot be copied or pickled", lambda: make(others[1]))


def modules():
    make = lambda **options: moec.torch.Module(**{"layer": "attention", "dim": 16, "batch": 2, "context": 8,
                                                  "use": "attention", "options": "heads.q = 2", **options})
    for name in ("dim", "batch", "context"):
        for value in (0, -1, 2**31):
            refused(ValueError, name, lambda: make(**{name: value}))
        for value in (1.5, True, "2", None):
            refused(TypeError, name, lambda: make(**{name: value}))
    refused(ValueError, "seed", lambda: make(seed=-1))
    for name in ("layer", "options", "text"):
        refused(TypeError, name, lambda: make(**{name: 3}))
    refused(TypeError, "use", lambda: make(use=3))
    refused(TypeError, "use[0]", lambda: make(use=[3]))
    refused(ValueError, "layer", lambda: make(layer=""))
    refused(moec.Error, "nothing", lambda: make(layer="nothing"))
    layer = make()
    good = torch.randn(2, 8, 16)
    for kind in (torch.float64, torch.float16, torch.int64, torch.bool, torch.complex64):
        refused(TypeError, "x|float32", lambda: layer(good.to(kind)))
    refused(TypeError, "x|meta", lambda: layer(good.to("meta")))
    refused(TypeError, "x|sparse", lambda: layer(good.to_sparse()))
    for value in (None, 3, good.numpy(), [good]):
        refused(TypeError, "x|expected a tensor", lambda: layer(value))
    for shape in ((2, 8), (3, 8, 16), (2, 7, 16), (2, 8, 15), (0, 8, 16), (2, 8, 16, 1)):
        refused(ValueError, "x|expected the shape", lambda: layer(torch.zeros(shape)))
    y = layer(good)
    assert torch.equal(layer(good.transpose(1, 2).contiguous().transpose(1, 2)), y)
    negative = torch.complex(good, -good).conj().imag
    assert negative.is_neg() and torch.equal(layer(negative), y)
    for change in (layer.double, layer.half, lambda: layer.to("meta"), layer.share_memory):
        refused(RuntimeError, "float32 on the CPU", change)
    assert torch.equal(layer(good), y)
    return layer, good, y


def copies(layer, x, y):
    """Copies compute the same and share nothing; a replaced parameter is an error; only first derivatives exist."""
    layer.key.requires_grad_(False)
    layer.eval()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), copy.copy(layer)):
        assert torch.equal(twin(x), y) and not twin.training and not twin.key.requires_grad and twin.query.requires_grad
        with torch.no_grad():
            twin.query.zero_()
        assert not torch.equal(twin(x), y) and torch.equal(layer(x), y)
    torch.save(layer, folder + "/layer.pt")
    assert torch.equal(torch.load(folder + "/layer.pt")(x), y)
    layer.load_state_dict(copy.deepcopy(layer).state_dict())
    x = x.clone().requires_grad_()
    dx, = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
    refused(RuntimeError, "once_differentiable", lambda: dx.sum().backward())
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(layer(x), y) and not layer(x).requires_grad
    kept = layer(x)
    parameters = dict(layer.named_parameters())
    layer._model.close()
    refused(ValueError, "closed", lambda: layer(x))
    assert torch.equal(kept, y) and all(torch.isfinite(one).all() for one in parameters.values())
    layer = copy.deepcopy(moec.torch.Module("attention", 16, 2, 8, use="attention", options="heads.q = 2"))
    layer.query.data = layer.query.data.clone()
    refused(RuntimeError, "query was replaced", lambda: layer(x))
    layer.query = torch.nn.Parameter(torch.zeros_like(layer.query))
    refused(RuntimeError, "query was replaced", lambda: layer(x))


loads()
runs()
tokens()
texts()
lives()
copies(*modules())
print(f"{count} wrong arguments")
