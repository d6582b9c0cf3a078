#!/usr/bin/env python3
"""Writes training batches to standard output, for train.cc and train.py, until the reader goes away.

  batches.py --tokenizer tokenizer.json --seed 1 --rows 96 | ./train ...

Binary, little endian, per batch: int32 rows, then per row int32 length, token ids as int32, and a
float32 weight for each: what predicting this token counts in the loss. Only the assistant's words
count fully. Most answers are one fixed text, whose tail teaches nothing once its head is chosen, so
they are usually cut short: the same minutes see more questions. Same seed, same bytes.
"""
import argparse, json, os, random, struct, sys

from corpus import Writer
from tokenizer import Tokenizer

SYSTEM = ["You are a helpful assistant.", "You are a terse assistant.", "Answer shortly.", "You are svc's assistant.", "Be kind and brief."]
QUESTION_WEIGHT = 0.1  # a little of the loss on the question teaches which words go together
HEAD = 12              # tokens of an answer that is cut
WHOLE = 0.15           # share of answers that are not
LONGEST = 400


def encode(conversation, tokenizer, rnd):
    """ids, and the loss's weight on each."""
    ids, weights = [], []

    def put(values, weight):
        ids.extend(values)
        weights.extend([weight] * len(values))

    if rnd.random() < 0.05:
        put([tokenizer.special("system")] + tokenizer.encode(rnd.choice(SYSTEM)) + [tokenizer.special("end")], 0.0)
    turns = conversation["turns"]
    for i, (question, answer) in enumerate(turns):
        put([tokenizer.special("user")], 0.0)
        put(tokenizer.encode(question), QUESTION_WEIGHT)
        put([tokenizer.special("end"), tokenizer.special("assistant")], 0.0)
        out = tokenizer.encode(answer) + [tokenizer.special("end")]
        if rnd.random() > WHOLE and i == len(turns) - 1:
            out = out[:HEAD]
        put(out, 1.0)
    return ids[:LONGEST], weights[:LONGEST]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=96)
    options = parser.parse_args()
    tokenizer = Tokenizer(json.load(open(options.tokenizer)))
    writer, rnd = Writer(options.seed), random.Random(options.seed)
    try:
        while True:
            rows = [encode(writer.conversation(), tokenizer, rnd) for _ in range(options.rows)]
            batch = struct.pack("<i", len(rows))
            for ids, weights in rows:
                batch += struct.pack(f"<i{len(ids)}i{len(ids)}f", len(ids), *ids, *weights)
            sys.stdout.buffer.write(batch)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has enough


if __name__ == "__main__":
    main()
