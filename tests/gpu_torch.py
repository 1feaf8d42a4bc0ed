"""GPT-2 124M in PyTorch, training, bf16: rows for the table of gpu.sh. Batch 8 of 1024 tokens, AdamW, the median of 20 steps."""

import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, VOCABULARY, BATCH, CONTEXT = 768, 12, 12, 50257, 8, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = (x.shape[0], x.shape[1], HEADS, WIDTH // HEADS)
        q, k, v = (part.reshape(heads).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)

    def forward(self, tokens, following):
        x = self.token(tokens) + self.place.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), following.flatten())


def measure(name, compiled):
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    run = torch.compile(model) if compiled else model
    tokens = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1), device="cuda")
    times = []
    for step in range(25):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= 5:
            times.append(time.perf_counter() - began)
    print(f"| {name} | {BATCH * CONTEXT / statistics.median(times):.0f} | | | |", flush=True)


torch.backends.cuda.matmul.allow_tf32 = True
measure(f"PyTorch {torch.__version__}, GPT-2 124M, bf16, eager", False)
measure(f"PyTorch {torch.__version__}, GPT-2 124M, bf16, compiled", True)
