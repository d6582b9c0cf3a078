#!/usr/bin/env python3
"""Trains the llama on conversations made as it goes; writes checkpoint.pt every few minutes.

  train.py --tokenizer tokenizer.json --minutes 60 --out checkpoint.pt

Only the assistant's words are fully in the loss. Most answers are one fixed text, whose tail teaches
nothing once its head is chosen, so answers are usually cut short: the same minutes see twice as many
questions. Same seed, same data order.
"""
import argparse, json, math, os, random, time
import torch
import torch.nn.functional as F
from torch import nn

from corpus import Writer
from tokenizer import Tokenizer

SYSTEM = ["You are a helpful assistant.", "You are a terse assistant.", "Answer shortly.", "You are svc's assistant.", "Be kind and brief."]


class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rope(x, base=10000.0):
    """llama's pairing: elements 2i and 2i+1 turn together. x: batch, heads, time, head size."""
    t, d = x.shape[-2:]
    angle = torch.outer(torch.arange(t, device=x.device).float(), base ** (-torch.arange(0, d, 2, device=x.device).float() / d))
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, d, heads, hidden, dropout):
        super().__init__()
        self.heads = heads
        self.attn_norm, self.ffn_norm = Norm(d), Norm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(d, hidden, bias=False), nn.Linear(d, hidden, bias=False)
        self.down = nn.Linear(hidden, d, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        b, t, d = x.shape
        h = self.attn_norm(x)
        q, k, v = (f(h).view(b, t, self.heads, d // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rope(q), rope(k)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(d // self.heads) + mask[:t, :t]
        x = x + self.dropout(self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)))
        h = self.ffn_norm(x)
        return x + self.dropout(self.down(F.silu(self.gate(h)) * self.up(h)))


class Llama(nn.Module):
    def __init__(self, vocabulary, d=160, layers=6, heads=5, hidden=448, dropout=0.0):
        super().__init__()
        self.shape = dict(vocabulary=vocabulary, d=d, layers=layers, heads=heads, hidden=hidden)
        self.embedding = nn.Embedding(vocabulary, d)
        self.blocks = nn.ModuleList(Block(d, heads, hidden, dropout) for _ in range(layers))
        self.norm = Norm(d)
        self.register_buffer("mask", torch.full((512, 512), float("-inf")).triu(1), persistent=False)
        self.dropout = nn.Dropout(dropout)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        for block in self.blocks:
            for f in (block.o, block.down):
                nn.init.normal_(f.weight, std=0.02 / math.sqrt(2 * layers))

    def forward(self, ids):
        x = self.dropout(self.embedding(ids))
        for block in self.blocks:
            x = block(x, self.mask)
        return self.norm(x) @ self.embedding.weight.T


def encode(conversation, tokenizer, rnd, full):
    """ids and weights of the loss on predicting each id."""
    ids, weights = [], []

    def put(values, weight):
        ids.extend(values)
        weights.extend([weight] * len(values))

    if rnd.random() < 0.05:
        put([tokenizer.special("system")] + tokenizer.encode(rnd.choice(SYSTEM)) + [tokenizer.special("end")], 0.0)
    turns = conversation["turns"]
    for i, (question, answer) in enumerate(turns):
        put([tokenizer.special("user")], 0.0)
        put(tokenizer.encode(question), 0.1)
        put([tokenizer.special("end"), tokenizer.special("assistant")], 0.0)
        out = tokenizer.encode(answer) + [tokenizer.special("end")]
        if i == len(turns) - 1 and rnd.random() > full and len(out) > 14:
            out = out[:14]
        put(out, 1.0)
    return ids[:400], weights[:400]


def batches(writer, tokenizer, rnd, rows, full):
    while True:
        pool = sorted((encode(writer.conversation(), tokenizer, rnd, full()) for _ in range(rows * 16)), key=lambda x: len(x[0]))
        chunks = [pool[i:i + rows] for i in range(0, len(pool), rows)]
        rnd.shuffle(chunks)
        for chunk in chunks:
            width = max(len(ids) for ids, _ in chunk)
            pad = tokenizer.special("pad")
            yield (torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in chunk]),
                   torch.tensor([w + [0.0] * (width - len(w)) for _, w in chunk]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--out", default="checkpoint.pt")
    parser.add_argument("--resume")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2.5e-3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(os.cpu_count() or 1)
    tokenizer = Tokenizer(json.load(open(options.tokenizer)))
    writer, rnd = Writer(options.seed), random.Random(options.seed)
    model = Llama(len(tokenizer.tokens), dropout=0.05).to(options.device)
    if options.resume:
        model.load_state_dict(torch.load(options.resume)["weights"])
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=options.rate, betas=(0.9, 0.98))
    began, step, seen, mean, saved = time.time(), 0, 0, None, time.time()
    done = lambda: (time.time() - began) / (60 * options.minutes)
    for ids, weights in batches(writer, tokenizer, rnd, options.rows, lambda: 1.0 if done() < 0.15 else 0.3):
        if done() >= 1:
            break
        rate = options.rate * min(1, (step + 1) / 200) * max(0.02, 0.5 * (1 + math.cos(math.pi * min(1, done()))))
        for group in optimizer.param_groups:
            group["lr"] = rate
        ids, weights = ids.to(options.device), weights.to(options.device)
        logits = model(ids[:, :-1])
        losses = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1), reduction="none")
        w = weights[:, 1:].reshape(-1)
        loss = (losses * w).sum() / w.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step, seen = step + 1, seen + ids.numel()
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if step % 50 == 0:
            print(f"step {step} loss {mean:.4f} rate {rate:.2e} {seen / (time.time() - began):.0f} tokens/s {100 * done():.0f} %", flush=True)
        if time.time() - saved > 120:
            torch.save({"shape": model.shape, "weights": model.state_dict()}, options.out)
            saved = time.time()
    torch.save({"shape": model.shape, "weights": model.state_dict()}, options.out)
    print(f"{step} steps, {seen} tokens, loss {mean:.4f}")


if __name__ == "__main__":
    main()
