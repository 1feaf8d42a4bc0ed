"""PyTorch measurements of tests/gpu.sh, one JSON object per line: gpu_torch.py WORK [quick] PART... WORK has our weights of
models/gpt2.moe:gpt2_small, a text and our loss on it, all in f32. A comparison with our model has "agrees"; if it is false, no
speed is printed. A part that fails is skipped and reported on stderr."""

import json
import statistics
import struct
import sys
import time
import traceback

import torch
from torch import nn
from torch.nn import functional as F

WORK, QUICK = sys.argv[1], "quick" in sys.argv[2:]
PARTS = [word for word in sys.argv[2:] if word != "quick"]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def report(**row):
    print(json.dumps(row), flush=True)


def median_seconds(work, warm=5, times=20):
    """Seconds per run; several runs in a row hide the launch time."""
    runs = 1 if QUICK else 5
    found = []
    for run in range((1 if QUICK else warm) + (2 if QUICK else times)):
        wait()
        began = time.perf_counter()
        for _ in range(runs):
            work()
        wait()
        if run >= (1 if QUICK else warm):
            found.append((time.perf_counter() - began) / runs)
    return statistics.median(found)


# ---- GPT-2 ----


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = Mlp(width)

    def forward(self, x):
        heads = (x.shape[0], x.shape[1], self.heads, x.shape[2] // self.heads)
        q, k, v = (part.reshape(heads).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.ffn(self.second(x))


class Model(nn.Module):
    def __init__(self, width, heads, layers, vocabulary, context):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks, self.norm = nn.ModuleList(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width)

    def forward(self, tokens, following):
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), following.flatten())


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    found = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            part = bytearray(data[8 + length + begin : 8 + length + end])
            found[name] = torch.frombuffer(part, dtype=torch.float32).reshape(entry["shape"])
    return found


def give(module, weight, bias):
    """Our matrices are [in, out]; those of PyTorch are [out, in]."""
    module.weight.data.copy_(weight if weight.dim() == 1 else weight.T)
    module.bias.data.copy_(bias)


def our_model(feed_forward=None):
    """With our weights. feed_forward creates the other feed-forward network of a block from its weights by name."""
    ours = tensors(WORK + "/weights")
    width = ours["embedding"].shape[1]
    layers = 1 + max(int(name.split(".")[1]) for name in ours if name.startswith("block."))
    heads = ours["block.0.attention.query"].shape[1]
    model = Model(width, heads, layers, ours["embedding"].shape[0], ours["place"].shape[0])
    model.token.weight.data.copy_(ours["embedding"])
    model.position.weight.data.copy_(ours["place"])
    give(model.norm, ours["final_norm.weight"], ours["final_norm.shift"])
    for i, block in enumerate(model.blocks):
        own = {name[len(f"block.{i}.") :]: value for name, value in ours.items() if name.startswith(f"block.{i}.")}
        give(block.first, own["attention_norm.weight"], own["attention_norm.shift"])
        give(block.second, own["ffn_norm.weight"], own["ffn_norm.shift"])
        names = ("query", "key", "value")
        give(block.qkv, torch.cat([own["attention." + name].reshape(width, -1) for name in names], 1),
             torch.cat([own[f"attention.{name}_bias"].reshape(-1) for name in names]))
        give(block.out, own["attention.output"].reshape(-1, width), own["attention.output_bias"])
        if feed_forward:
            block.ffn = feed_forward(own)
        else:
            give(block.ffn.up, own["ffn.up"], own["ffn.up_bias"])
            give(block.ffn.down, own["ffn.down"], own["ffn.down_bias"])
    return model.to(DEVICE)


def agrees_with_ours():
    """Relative difference of our loss on the text from that of PyTorch with our weights."""
    with open(WORK + "/text", "rb") as file:
        text = file.read()
    model = our_model()
    context = model.position.weight.shape[0]
    windows = torch.tensor(list(text[: len(text) // (context + 1) * (context + 1)])).reshape(-1, context + 1).to(DEVICE)
    torch.backends.cuda.matmul.allow_tf32 = False
    with torch.no_grad():
        loss = model(windows[:, :-1], windows[:, 1:]).item()
    ours = tensors(WORK + "/loss")["loss"].item()
    return abs(loss - ours) <= 1e-4 * abs(ours), f"loss {loss:.6f}, ours {ours:.6f}"


def train(name, shape, compiled, agrees, note):
    width, heads, layers, vocabulary, batch, context = (32, 2, 1, 64, 1, 16) if QUICK else shape
    torch.manual_seed(1)
    model = Model(width, heads, layers, vocabulary, context).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=DEVICE == "cuda")
    run = torch.compile(model) if compiled else model
    tokens = torch.randint(vocabulary, (batch, context + 1), device=DEVICE)

    def step():
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    seconds = median_seconds(step)
    report(name=name, tokens_per_second=batch * context / seconds, milliseconds=1e3 * seconds, agrees=agrees, note=f"bf16; {note}")


def gpt2():
    agrees, note = agrees_with_ours()
    shape = (768, 12, 12, 50257, 16, 1024)
    train("GPT-2 124M, training, eager", shape, False, agrees, note)
    train("GPT-2 124M, training, compiled", shape, True, agrees, note)


def gpt2_xl():
    agrees, note = agrees_with_ours()
    train("GPT-2 1.5B, training, compiled", (1600, 25, 48, 50257, 8, 1024), True, agrees, note)


# ---- attention ----


def attention():
    batch, heads, positions, width = (1, 2, 32, 16) if QUICK else (16, 12, 1024, 64)
    q, k, v = (torch.randn(batch, heads, positions, width, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    flops = 2 * 2 * batch * heads * positions * positions * width / 2  # of the triangle below the diagonal

    def both(attend):
        attend().sum().backward()

    fused = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = torch.ones(positions, positions, dtype=torch.bool, device=DEVICE).tril()
    scores = (q.float() @ k.float().transpose(-1, -2) * width**-0.5).masked_fill(~mask, float("-inf"))
    plain = scores.softmax(-1) @ v.float()
    agrees = bool((fused().float() - plain).norm() <= 2e-2 * plain.norm())
    del scores, plain
    for name, work, factor in (("forward", fused, 1), ("forward and backward", lambda: both(fused), 3.5)):
        seconds = median_seconds(work)
        report(name=f"scaled_dot_product_attention, {name}", milliseconds=1e3 * seconds, tflops=factor * flops / seconds / 1e12, agrees=agrees,
             note=f"causal, {batch} x {heads} heads x {positions} x {width}")


def flexible():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    batch, heads, positions, width = (1, 2, 128, 16) if QUICK else (16, 12, 1024, 64)
    q, k, v = (torch.randn(batch, heads, positions, width, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, positions, positions, device=DEVICE)
    attend = torch.compile(flex_attention)
    flops = 2 * 2 * batch * heads * positions * positions * width / 2
    fused = F.scaled_dot_product_attention(q, k, v, is_causal=True).float()
    agrees = bool((attend(q, k, v, block_mask=mask).float() - fused).norm() <= 2e-2 * fused.norm())
    seconds = median_seconds(lambda: attend(q, k, v, block_mask=mask).sum().backward())
    report(name="flex_attention, forward and backward", milliseconds=1e3 * seconds, tflops=3.5 * flops / seconds / 1e12, agrees=agrees,
         note="causal, compiled")


def decode():
    heads, prefix, width = (4, 64, 16) if QUICK else (32, 32768, 128)
    for kept in (heads // 2,):
        q = torch.randn(1, heads, 1, width, device=DEVICE, dtype=torch.bfloat16)
        k, v = (torch.randn(1, kept, prefix, width, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
        wide_k, wide_v = (x.repeat_interleave(heads // kept, 1) for x in (k, v))
        plain = F.scaled_dot_product_attention(q.float(), wide_k.float(), wide_v.float())
        del wide_k, wide_v
        work = lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        agrees = bool((work().float() - plain).norm() <= 2e-2 * plain.norm())
        seconds = median_seconds(work)
        report(name=f"scaled_dot_product_attention, one query, {heads}/{kept}/{kept} heads", milliseconds=1e3 * seconds, agrees=agrees,
             note=f"prefix of {prefix}, one layer, {2 * k.numel() * 2 / seconds / 1e9:.0f} GB/s")


# ---- mixture of experts ----


def mixture():
    tokens, width, experts, hidden, top = (64, 32, 4, 16, 2) if QUICK else (24576, 1536, 128, 256, 8)
    kind = dict(device=DEVICE, dtype=torch.bfloat16)
    x = torch.randn(tokens, width, **kind).requires_grad_()
    up, gate = (torch.randn(experts, width, hidden, **kind).mul_(width**-0.5).requires_grad_() for _ in range(2))
    down = torch.randn(experts, hidden, width, **kind).mul_(hidden**-0.5).requires_grad_()
    chosen = torch.rand(tokens, experts, device=DEVICE).topk(top, 1).indices
    order = chosen.flatten().argsort(stable=True)
    rows, sizes = order // top, chosen.flatten().bincount(minlength=experts)
    ends = sizes.cumsum(0).to(torch.int32)
    counts = sizes.tolist()

    def sum_up(packed):
        return torch.zeros(tokens, width, **kind).index_add(0, rows, packed)

    def loop():
        parts = x[rows].split(counts)
        return sum_up(torch.cat([(F.silu(part @ gate[i]) * (part @ up[i])) @ down[i] for i, part in enumerate(parts)]))

    def grouped():
        packed = x[rows]
        h = F.silu(torch._grouped_mm(packed, gate, offs=ends)) * torch._grouped_mm(packed, up, offs=ends)
        return sum_up(torch._grouped_mm(h, down, offs=ends))

    flops = 3 * 3 * 2 * tokens * top * width * hidden
    wanted = loop().detach().float()
    works = [("a loop over the experts", loop)] + ([("torch._grouped_mm", grouped)] if hasattr(torch, "_grouped_mm") else [])
    for name, work in works:
        agrees = bool((work().detach().float() - wanted).norm() <= 2e-2 * wanted.norm())
        seconds = median_seconds(lambda: work().sum().backward(), times=10)
        report(name=f"mixture of experts, {name}", milliseconds=1e3 * seconds, tflops=flops / seconds / 1e12, agrees=agrees,
             note="forward and backward, routing given")


def all_parts():
    torch.backends.cuda.matmul.allow_tf32 = True
    for part in [globals()[name] for name in PARTS]:
        try:
            part()
        except Exception:  # continue with the other parts
            print(f"{part.__name__}: {traceback.format_exc()}", file=sys.stderr, flush=True)
        if DEVICE == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    all_parts()
