"""What tests/python/compare.sh tries: compare.py FOLDER, which has a run."""

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
    said = subprocess.run(["moec", "generate", folder + "/run", "--prompt", "the", "--tokens", "9", "--temperature", "0"],
                          capture_output=True, check=True).stdout.decode()
    assert "the" + moec.load(folder + "/run").generate("the", tokens=9) == said
    model.save(folder + "/saved.safetensors")
    assert moec.load(folder + "/saved.safetensors").loss(windows) == model.loss(windows)
    for wrong in (lambda: moec.load(folder + "/nothing"), lambda: model.loss(windows + 1000),
                  lambda: moec.Model(spec="model m = nothing {}")):
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
    """The same layer in PyTorch, as one would write it: its parameters are copies."""

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


def train(model, text, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses, seconds, chance = [], [], torch.Generator().manual_seed(3)
    for _ in range(steps):
        start = torch.randint(len(text) - CONTEXT - 1, (BATCH, 1), generator=chance)
        window = text[start + torch.arange(CONTEXT + 1)]
        began = time.perf_counter()
        loss = functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
        losses.append(loss.item())
    return losses, sorted(seconds)[len(seconds) // 4]


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
    mine, my_time = train(first, text, 200)
    its, its_time = train(second, text, 200)
    apart = max(abs(a - b) for a, b in zip(mine, its))
    print(f"loss {mine[0]:.4f} -> {mine[-1]:.4f}, the twin's {its[-1]:.4f}; at most {apart:.1e} apart")
    assert apart < 5e-3 and mine[-1] < mine[0] - 1
    alone = lambda one: min(timed(one, x, dy) for _ in range(20))
    print(f"a step {my_time * 1e3:.2f} ms, the twin's {its_time * 1e3:.2f} ms; the layer alone {alone(layer) * 1e3:.2f} ms,"
          f" the twin's {alone(twin) * 1e3:.2f} ms")


def timed(layer, x, dy):
    began = time.perf_counter()
    torch.autograd.grad(layer(x), [x, *layer.parameters()], dy)
    return time.perf_counter() - began


arrays()
layers()
print("good")
