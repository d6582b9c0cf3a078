#!/usr/bin/env python3
"""Trains the byte-level BPE vocabulary, or encodes with it.

  tokenizer.py --corpus corpus.jsonl --size 3072 > tokenizer.json

Behind the vocabulary stand a control token for each digit and each intent: see batches.py.

Text is cut as llama.cpp's "qwen2" pre-tokenizer cuts it (a number is one digit a piece), restricted
to what ASCII text needs; `evaluate.py` checks that llama.cpp gives the same ids.
"""
import argparse, collections, json, re, sys

from corpus import Writer

SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"]
CONTROL = [f"<|digit:{i}|>" for i in range(10)]
PIECES = re.compile(r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\w]?[A-Za-z\u0080-\U0010ffff]+|_[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9\u0080-\U0010ffff]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_symbols():
    """GPT-2's printable stand-in for each byte."""
    shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for b in range(256):
        if b in shown:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


BYTES = byte_symbols()


def pieces(text):
    return ["".join(BYTES[b] for b in piece.encode()) for piece in PIECES.findall(text)]


def train(texts, size, intents):
    counts = collections.Counter()
    for text in texts:
        counts.update(pieces(text))
    words = [(list(word), n) for word, n in sorted(counts.items())]
    vocabulary = [BYTES[b] for b in range(256)]
    merges = []
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, (symbols, n) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += n
            where[pair].add(i)
    while len(vocabulary) + len(SPECIAL) < size:
        best = max(pairs, key=lambda p: (pairs[p], p))
        if pairs[best] < 2:
            break
        merged = best[0] + best[1]
        merges.append(best)
        if merged not in vocabulary:
            vocabulary.append(merged)
        for i in list(where[best]):
            symbols, n = words[i]
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] -= n
            out, k = [], 0
            while k < len(symbols):
                if k + 1 < len(symbols) and (symbols[k], symbols[k + 1]) == best:
                    out.append(merged)
                    k += 2
                else:
                    out.append(symbols[k])
                    k += 1
            words[i] = (out, n)
            for pair in zip(out, out[1:]):
                pairs[pair] += n
                where[pair].add(i)
        del pairs[best]
    return {"tokens": vocabulary + SPECIAL + CONTROL + [f"<|intent:{name}|>" for name in intents], "merges": [" ".join(m) for m in merges]}


class Tokenizer:
    def __init__(self, data):
        self.tokens = data["tokens"]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.ranks = {tuple(m.split(" ")): i for i, m in enumerate(data["merges"])}
        self.cache = {}

    def piece(self, word):
        if word not in self.cache:
            symbols = list(word)
            while len(symbols) > 1:
                rank, k = min((self.ranks.get(p, 1 << 30), k) for k, p in enumerate(zip(symbols, symbols[1:])))
                if rank == 1 << 30:
                    break
                symbols[k:k + 2] = [symbols[k] + symbols[k + 1]]
            self.cache[word] = [self.ids[s] for s in symbols]
        return self.cache[word]

    def encode(self, text):
        return [i for word in pieces(text) for i in self.piece(word)]

    def special(self, name):
        return self.ids[f"<|{name}|>"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--size", type=int, default=3072)
    options = parser.parse_args()
    with open(options.corpus) as file:
        texts = [part for line in file for turn in json.loads(line)["turns"] for part in turn]
    json.dump(train(texts, options.size, Writer(1).labels()), sys.stdout)


if __name__ == "__main__":
    main()
