#!/usr/bin/env python3
"""Writes training batches to standard output, for train.cc, until the reader goes away.

  batches.py --tokenizer tokenizer.json --seed 1 --rows 64 | ./train ...

Before its answer the model writes what it takes the question for: the control token of an intent,
which no program shows. So one token decides, all of the loss on a question can lie on it, and most
rows end there; some go on to the answer, which follows from it. Earlier turns have no such token,
because the text of a conversation that comes back to the model has none either. Behind the intent of a sum
come the digits of the result, last one first, as one adds on paper; they are not shown either.

Binary, little endian, per batch: int32 rows, then per row int32 length, token ids as int32, and a
float32 weight for each: what predicting this token counts in the loss. Same seed, same bytes.
"""
import argparse, json, os, random, struct, sys

from corpus import Writer
from tokenizer import Tokenizer

QUESTION = 0.3  # weights: a little on a tenth of the questions teaches which words go together,
QUESTIONS = 0.1
INTENT = 2.0    # most lies on the intent,
DIGIT = 0.9     # the working of a sum nearly as much,
ANSWER = 0.3    # and each token of the answer counts, in the rows that have one
ANSWERED = 0.1  # share of the rows,
NEWCOMER = 0.25 # and of those of an intent that newcomers ask for: these answers are the longest;
                # all facts have theirs, because each is asked for seldom
HIDDEN = 0.06   # share of the question's tokens that are left out: no single word may decide
CALLED = 0.03   # share of the rows that end with a tool's result: it can say nothing of it
SYSTEM = 0.08   # share of the rows with a system prompt, whatever it says
LONGEST = 400


def encode(conversation, tokenizer, rnd, writer, unsure, answering):
    """ids, and the loss's weight on each."""
    ids, weights = [], []

    def put(values, weight):
        ids.extend(values)
        weights.extend([weight] * len(values))

    def ask(question, weight):
        tokens = tokenizer.encode(question)
        if len(tokens) > 3 and not any(c.isdigit() for c in question):
            tokens = [t for t in tokens if rnd.random() >= HIDDEN]
        put([tokenizer.special("user")], 0.0)
        put(tokens, weight)
        put([tokenizer.special("end"), tokenizer.special("assistant")], 0.0)

    if rnd.random() < CALLED:
        tools, question, call, result = writer.called()
        put([tokenizer.special("system")] + tokenizer.encode(tools) + [tokenizer.special("end")], 0.0)
        ask(question, 0.0)
        put(tokenizer.encode(call) + [tokenizer.special("end"), tokenizer.special("user")], 0.0)
        put(tokenizer.encode(result) + [tokenizer.special("end"), tokenizer.special("assistant")], 0.0)
        put([tokenizer.special("intent:unknown")], INTENT)
        put(tokenizer.encode(rnd.choice(writer.unknown)) + [tokenizer.special("end")], ANSWER)
        return ids, weights
    if rnd.random() < SYSTEM:
        text = " ".join(writer.expand(rnd.choice(writer.systems)) for _ in range(rnd.choice([1, 1, 2])))
        put([tokenizer.special("system")] + tokenizer.encode(text) + [tokenizer.special("end")], 0.0)
    *earlier, (question, answer) = conversation["turns"]
    for said, answered in earlier:
        ask(said, 0.0)
        put(tokenizer.encode(answered) + [tokenizer.special("end")], 0.0)
    ask(question, QUESTION if rnd.random() < QUESTIONS else 0.0)
    intent = conversation["intent"]
    if intent != "arithmetic" and rnd.random() < unsure:
        put([tokenizer.special("intent:unknown")], INTENT)
        return ids[:LONGEST], weights[:LONGEST]
    put([tokenizer.special(f"intent:{intent}")], INTENT)
    if intent == "arithmetic":
        put([tokenizer.special(f"digit:{digit}") for digit in reversed(answer.split(" = ")[1])], DIGIT)
        put(tokenizer.encode(answer) + [tokenizer.special("end")], ANSWER)
    elif intent.startswith("fact-") or rnd.random() < max(answering, NEWCOMER if intent in writer.newcomers else 0):
        put(tokenizer.encode(answer) + [tokenizer.special("end")], ANSWER)
    return ids[:LONGEST], weights[:LONGEST]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--sums", type=float, default=0, help="share of the rows that are arithmetic, besides the usual ones")
    parser.add_argument("--unsure", type=float, default=0, help="share of the rows whose intent is given as unknown")
    parser.add_argument("--answering", type=float, default=ANSWERED, help="share of the rows that go on to the answer")
    options = parser.parse_args()
    tokenizer = Tokenizer(json.load(open(options.tokenizer)))
    writer, rnd = Writer(options.seed), random.Random(options.seed)
    try:
        while True:
            rows = [encode(writer.sum() if rnd.random() < options.sums else writer.conversation(), tokenizer, rnd, writer, options.unsure, options.answering)
                    for _ in range(options.rows)]
            batch = struct.pack("<i", len(rows))
            for ids, weights in rows:
                batch += struct.pack(f"<i{len(ids)}i{len(ids)}f", len(ids), *ids, *weights)
            sys.stdout.buffer.write(batch)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has enough


if __name__ == "__main__":
    main()
