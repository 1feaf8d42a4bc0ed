"""Tests of tests/python/compare.sh: compare.py FOLDER, which contains a run."""

import math
import subprocess
import sys
import time

import numpy
import torch
from torch.nn import functional

import moec
import moec.torch

folder = sys.argv[1]
BATCH, CONTEXT, DIM, HEADS, VOCABULARY = 8, 128, 128, 4, 256
OPTIONS = f"heads.q = {HEADS}, gate = {{ at = sdpa, per = element, act = sigmoid }}"


def arrays():
    model = moec.load(folder + "/run", train=True)
    windows = numpy.resize(model.encode("layer norm(x) -> y"), (model.batch, model.context + 1))
    loss, gradients = model.gradients(windows)
    assert abs(loss - model.loss(windows)) < 1e-6
    name, weight = next(iter(model.parameters.items()))
    shared = torch.from_dlpack(weight)
    before = weight.copy()
    model.step(windows)
    assert shared.data_ptr() == weight.ctypes.data and not numpy.array_equal(weight, before)
    shared[:] = torch.from_numpy(before)
    numpy.testing.assert_array_equal(model.parameters[name], before)
    assert set(gradients) == set(model.parameters)
    logits = model.logits(torch.from_numpy(windows[:, :-1].copy()))
    chosen = torch.log_softmax(torch.from_numpy(logits), -1).gather(-1, torch.from_numpy(windows[:, 1:, None]).long())
    assert abs(-chosen.mean().item() - model.loss(windows)) < 1e-5
    output = subprocess.run(["moec", "generate", folder + "/run", "--prompt", "the", "-n", "9", "--temperature", "0"],
                          capture_output=True, check=True).stdout.decode()
    assert "the" + moec.load(folder + "/run").generate("the", tokens=9) == output
    model.save(folder + "/saved.safetensors")
    assert moec.load(folder + "/saved.safetensors").loss(windows) == model.loss(windows)
    for wrong in (lambda: moec.load(folder + "/nothing"), lambda: moec.Model(spec="model m = nothing {}")):
        try:
            wrong()
        except moec.Error as error:
            assert str(error), error
        else:
            raise AssertionError("no error")
    log = moec.read_log(folder + "/run")
    assert {"step", "loss"} <= set(log.columns) and len(log) >= 40
    print("arrays, DLPack, text, errors, logs")


class Twin(torch.nn.Module):
    """The same layer in idiomatic PyTorch: its parameters are copies."""

    def __init__(self, layer):
        super().__init__()
        for name, parameter in layer.named_parameters():
            self.register_parameter(name, torch.nn.Parameter(parameter.detach().clone()))
        width = DIM // HEADS
        angle = torch.arange(CONTEXT)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("cos", angle.cos().repeat(1, 2)[:, None])
        self.register_buffer("sin", angle.sin().repeat(1, 2)[:, None])

    def rotate(self, x):
        half = x.shape[-1] // 2
        return x * self.cos + torch.cat([-x[..., half:], x[..., :half]], -1) * self.sin

    def forward(self, x):
        project = lambda weight: (x @ weight.flatten(1)).unflatten(-1, weight.shape[1:])
        q, k, v = self.rotate(project(self.query)), self.rotate(project(self.key)), project(self.value)
        o = functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        o = o.transpose(1, 2) * torch.sigmoid(project(self.sdpa_gate_weight))
        return o.flatten(2) @ self.output.flatten(0, 1)


class Small(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, DIM)
        self.norm = torch.nn.LayerNorm(DIM)
        self.layer = layer
        self.head = torch.nn.Linear(DIM, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x + self.layer(self.norm(x)))


class Training:
    def __init__(self, model, text):
        self.model, self.text, self.losses = model, text, []
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        self.generator = torch.Generator().manual_seed(3)

    def step(self):
        start = torch.randint(len(self.text) - CONTEXT - 1, (BATCH, 1), generator=self.generator)
        window = self.text[start + torch.arange(CONTEXT + 1)]
        loss = functional.cross_entropy(self.model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


def seconds(run, times):
    began = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - began) / times


def faster(what, mine, its, rounds, times):
    """Fails unless `mine` is faster than `its`. Compares medians of neighboring blocks, in turns: the load of the machine affects
    both."""
    mine(), its()
    pairs = [(seconds(mine, times), seconds(its, times)) if i % 2 else (seconds(its, times), seconds(mine, times))[::-1]
             for i in range(rounds)]
    ratios = sorted(a / b for a, b in pairs)
    middle = lambda numbers: sorted(numbers)[len(numbers) // 2]
    print(f"{what}: {middle([a for a, _ in pairs]) * 1e3:.2f} ms, the twin's {middle([b for _, b in pairs]) * 1e3:.2f} ms;"
          f" of its time {middle(ratios):.3f} (quartiles {ratios[rounds // 4]:.3f}, {ratios[-1 - rounds // 4]:.3f})")
    return middle(ratios) < 1


def layers():
    layer = moec.torch.Module("attention", dim=DIM, batch=BATCH, context=CONTEXT, use="attention", options=OPTIONS)
    twin = Twin(layer)
    x, dy = torch.randn(BATCH, CONTEXT, DIM, requires_grad=True), torch.randn(BATCH, CONTEXT, DIM)
    mine = torch.autograd.grad(layer(x), [x, *layer.parameters()], dy)
    its = torch.autograd.grad(twin(x), [x, *twin.parameters()], dy)
    for one, other in zip(mine, its):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4 * other.abs().max().item()), (one - other).abs().max()
    few = layer(x[:3])
    assert torch.allclose(few, twin(x[:3]), atol=1e-5) and few.shape[0] == 3
    for wrong in (lambda: layer(x.double()), lambda: layer(x[:, 1:]), lambda: layer.double()):
        try:
            wrong()
        except (TypeError, ValueError, RuntimeError):
            pass
        else:
            raise AssertionError("no error")

    with open(folder + "/text", "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    torch.manual_seed(1)
    first = Small(layer)
    second = Small(twin)
    for name, parameter in second.named_parameters():
        if not name.startswith("layer."):
            parameter.data.copy_(first.get_parameter(name).data)
    mine, its = Training(first, text), Training(second, text)
    ok = faster("a step", mine.step, its.step, 20, 10)
    apart = max(abs(a - b) for a, b in zip(mine.losses, its.losses))
    print(f"loss {mine.losses[0]:.4f} -> {mine.losses[-1]:.4f}, the twin's {its.losses[-1]:.4f}; at most {apart:.1e} apart")
    assert apart < 5e-3 and mine.losses[-1] < mine.losses[0] - 1
    alone = lambda one: lambda: torch.autograd.grad(one(x), [x, *one.parameters()], dy)
    assert faster("the layer alone", alone(layer), alone(twin), 20, 10) and ok, "slower than its twin"


def differences(layer, x, dy):
    """Compares the slope of sum y * dy along a direction of x with the gradient, with the dropout of the first call."""
    seed = layer._seed
    again = lambda x: (setattr(layer, "_seed", seed), layer(x))[1]
    dx, = torch.autograd.grad(again(x), x, dy)
    way = torch.randn_like(x)
    slope = ((again(x + 1e-2 * way) - again(x - 1e-2 * way)) * dy).sum() / 2e-2
    assert abs(slope - (dx * way).sum()) < 1e-2 * slope.abs() + 0.1, (slope, (dx * way).sum())


def graphs():
    """Uses of a layer in autograd other than one backward after one forward."""
    layer = moec.torch.Module("attention", dim=16, batch=2, context=8, use="attention", options=OPTIONS + ", head_dim = 4")
    x, dy = torch.randn(2, 2, 8, 16, requires_grad=True), torch.randn(2, 8, 16)
    each = [torch.autograd.grad(layer(one), [one, *layer.parameters()], dy) for one in x.detach().requires_grad_().unbind()]
    ys = [layer(one) for one in x.unbind()]
    for _ in range(2):  # a retained graph, of two calls, and a third call without a backward pass
        layer(x[0])
        dx, *both = torch.autograd.grad(ys, [x, *layer.parameters()], [dy, dy], retain_graph=True)
        assert torch.equal(dx, torch.stack([one[0] for one in each]))
        for one, parts in zip(both, zip(*[one[1:] for one in each])):
            assert torch.allclose(one, sum(parts), atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(layer(x[0]), ys[0], atol=1e-6)
        layer.query.mul_(2)
    try:
        torch.autograd.grad(ys, x, [dy, dy])
    except RuntimeError as error:
        assert "modified" in str(error)
    else:
        raise AssertionError("a parameter changed between forward and backward")
    before = len(layer._free)
    del ys
    assert len(layer._free) > before  # the memory of an abandoned graph
    text = "layer left(x[s, d]) -> y[s, d] { y = dropout(x * x; rate = 0.5) }"
    dropped = moec.torch.Module("left", dim=16, batch=2, context=8, use="dropout", text=text)
    x = torch.randn(2, 8, 16, requires_grad=True)
    assert not torch.equal(dropped(x), dropped(x)) and (dropped(x) == 0).float().mean() > 0.3
    with torch.no_grad():
        assert torch.allclose(dropped(x), x * x)
    differences(dropped, x, dy)
    differences(layer, x, dy)
    print("graphs of autograd, dropout")


arrays()
graphs()
layers()
print("good")
