#!/usr/bin/env python3
"""Trains as train.cc does, with PyTorch: for a GPU, where a larger model takes minutes.

  batches.py --rows 256 | train.py --steps 20000 --device cuda --out nano.f32

Reads and writes the same files, in the same order of parameters. On two cores train.cc is five times
as fast: each small operation of such a small network costs more than its arithmetic.
"""
import argparse, math, struct, sys, time
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HEAD = 32
EPSILON = 1e-5


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * self.weight


def rope(x):
    """llama's pairing: elements 2i and 2i+1 turn together. x: batch, heads, time, head size."""
    time_, size = x.shape[-2:]
    rates = 10000.0 ** (-torch.arange(0, size, 2, device=x.device).float() / size)
    angle = torch.outer(torch.arange(time_, device=x.device).float(), rates)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, width, hidden, dropout):
        super().__init__()
        self.attn_norm = Norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.ffn_norm = Norm(width)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (y.view(batch, length, -1, HEAD).transpose(1, 2) for y in self.qkv(self.attn_norm(x)).chunk(3, -1))
        scores = rope(q) @ rope(k).transpose(-1, -2) / math.sqrt(HEAD)
        scores = scores + torch.full((length, length), float("-inf"), device=x.device).triu(1)
        x = x + self.dropout(self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.dropout(self.down(F.silu(gate) * up))


class Llama(nn.Module):
    """The order in which the parameters are declared is that of the file."""

    def __init__(self, vocabulary, width, layers, hidden, dropout):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, hidden, dropout) for _ in range(layers))
        self.norm = Norm(width)
        self.dropout = nn.Dropout(dropout)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                into_residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if into_residual else 0.02)

    def forward(self, ids):
        x = self.dropout(self.embedding(ids))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embedding.weight.T

    def save(self, path):
        np.concatenate([p.detach().cpu().float().numpy().ravel() for p in self.parameters()]).astype("<f4").tofile(path)

    def load(self, path):
        flat, at = torch.from_numpy(np.fromfile(path, "<f4")), 0
        for p in self.parameters():
            p.data.copy_(flat[at:at + p.numel()].view_as(p))
            at += p.numel()


def read_batches(file):
    """ids and weights of a batch, padded to its longest row; padding weighs nothing."""
    def take(form):
        return struct.unpack(form, file.read(struct.calcsize(form)))

    while True:
        rows = []
        for _ in range(take("<i")[0]):
            (length,) = take("<i")
            rows.append((take(f"<{length}i"), take(f"<{length}f")))
        width = max(len(ids) for ids, _ in rows)
        yield (torch.tensor([ids + (0,) * (width - len(ids)) for ids, _ in rows]),
               torch.tensor([weights + (0.0,) * (width - len(weights)) for _, weights in rows]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="start", help="begin with these parameters")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="nano.f32")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model = Llama(options.vocabulary, options.width, options.layers, options.hidden, options.dropout).to(options.device)
    if options.start:
        model.load(options.start)
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays], "weight_decay": 0.1 if decays else 0.0}
              for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    began, mean = time.time(), None
    for step, (ids, weights) in zip(range(options.steps), read_batches(sys.stdin.buffer)):
        rate = options.rate * min(1, (step + 1) / options.warmup) * max(0.01, 0.5 * (1 + math.cos(math.pi * step / options.steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        ids, weights = ids.to(options.device), weights.to(options.device)
        logits = model(ids[:, :-1])
        w = weights[:, 1:].reshape(-1)
        losses = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction="none")
        loss = (losses * w).sum() / w.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step == 0 or (step + 1) % 100 == 0:
            print(f"step {step + 1} loss {mean:.4f} norm {norm:.2f} rate {rate:.2e} {time.time() - began:.0f} s", flush=True)
        if (step + 1) % 1000 == 0:
            model.save(options.out)
    model.save(options.out)


if __name__ == "__main__":
    main()
