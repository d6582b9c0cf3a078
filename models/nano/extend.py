#!/usr/bin/env python3
"""Makes a trained model the beginning of the next one, which may have more intents.

  extend.py --gguf before.gguf --tokenizer tokenizer.json --out nano.f32

The vocabulary stays, and tokens for the new intents are added. Their embeddings begin at the mean of the other intents'.
train.cc --from goes on from there: with half the steps of a training from random numbers.
"""
import argparse, json, struct
import numpy as np

from corpus import Writer

SIZES = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9


class Gguf:
    def __init__(self, path):
        self.data, self.at = open(path, "rb").read(), 8
        tensors, keys = self.take("<Q"), self.take("<Q")
        self.keys = {}
        for _ in range(keys):
            name = self.string()
            self.keys[name] = self.value(self.take("<I"))
        entries = []
        for _ in range(tensors):
            name, dimensions = self.string(), self.take("<I")
            shape = [self.take("<Q") for _ in range(dimensions)]
            entries.append((name, shape[::-1], self.take("<I"), self.take("<Q")))
        start = -(-self.at // 32) * 32
        self.tensors = {name: self.tensor(start + offset, shape, kind) for name, shape, kind, offset in entries}

    def take(self, form):
        self.at += struct.calcsize(form)
        return struct.unpack_from(form, self.data, self.at - struct.calcsize(form))[0]

    def string(self):
        length = self.take("<Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, length = self.take("<I"), self.take("<Q")
            return [self.value(inner) for _ in range(length)]
        return self.take(SIZES[kind])

    def tensor(self, at, shape, kind):
        count = int(np.prod(shape))
        if kind == 0:
            return np.frombuffer(self.data, "<f4", count, at).reshape(shape)
        assert kind == 8, "only F32 and Q8_0"
        blocks = np.frombuffer(self.data, [("scale", "<f2"), ("quants", "i1", 32)], count // 32, at)
        return (blocks["scale"].astype("f4")[:, None] * blocks["quants"]).reshape(shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--out", default="nano.f32")
    options = parser.parse_args()
    model = Gguf(options.gguf)
    before = model.keys["tokenizer.ggml.tokens"]
    own = [token for token in before if not token.startswith("<|intent:")]
    tokens = own + [f"<|intent:{name}|>" for name in Writer(1).labels()]
    with open(options.tokenizer, "w") as file:
        json.dump({"tokens": tokens, "merges": model.keys["tokenizer.ggml.merges"]}, file)

    rows = {token: row for token, row in zip(before, model.tensors.pop("token_embd.weight"))}
    mean = np.mean([row for token, row in rows.items() if token not in own], axis=0)
    random = np.random.default_rng(1)
    embedding = [rows[t] if t in rows else mean + random.normal(0, 0.02, mean.shape) for t in tokens]
    flat = [np.stack(embedding).ravel()] + [tensor.ravel() for tensor in model.tensors.values()]
    np.concatenate(flat).astype("<f4").tofile(options.out)
    print(f"{len(tokens)} tokens, {len(tokens) - len(before)} more than before")


if __name__ == "__main__":
    main()
