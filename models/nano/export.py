#!/usr/bin/env python3
"""Writes checkpoint.pt as a GGUF of llama's architecture, matrices in Q8_0, norms in F32.

  export.py --checkpoint checkpoint.pt --tokenizer tokenizer.json --out nano.gguf
"""
import argparse, hashlib, json, struct
import numpy as np
import torch

from tokenizer import SPECIAL

TEMPLATE = ("{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] | trim }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TENSOR_F32, TENSOR_Q8_0 = 0, 8


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    if kind == STRING:
        return string(v)
    if kind == ARRAY:
        inner, items = v
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, i) for i in items)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<?", I32: "<i"}[kind], v)


def q8_0(matrix):
    """Blocks of 32 along a row: a half-precision scale, then 32 signed bytes."""
    blocks = matrix.reshape(-1, 32)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    with np.errstate(divide="ignore", invalid="ignore"):
        quants = np.where(scale > 0, np.round(blocks / scale), 0).astype(np.int8)
    out = np.zeros((len(blocks), 34), np.uint8)
    out[:, :2] = scale.astype("<f2").view(np.uint8)
    out[:, 2:] = quants.view(np.uint8)
    return out.tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--out", default="nano.gguf")
    options = parser.parse_args()
    saved = torch.load(options.checkpoint, map_location="cpu")
    shape, weights = saved["shape"], {k: v.float().numpy() for k, v in saved["weights"].items()}
    vocabulary = json.load(open(options.tokenizer))
    control = set(SPECIAL)
    end = vocabulary["tokens"].index("<|end|>")
    parameters = sum(w.size for w in weights.values())

    keys = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "svc nano"),
        ("general.description", STRING, "svc's built-in model: small, knows svc and little else"),
        ("general.license", STRING, "mit"),
        ("general.size_label", STRING, f"{parameters / 1e6:.1f}M"),
        ("general.file_type", U32, 7),
        ("general.quantization_version", U32, 2),
        ("llama.context_length", U32, 2048),
        ("llama.embedding_length", U32, shape["d"]),
        ("llama.block_count", U32, shape["layers"]),
        ("llama.feed_forward_length", U32, shape["hidden"]),
        ("llama.attention.head_count", U32, shape["heads"]),
        ("llama.attention.head_count_kv", U32, shape["heads"]),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("llama.rope.freq_base", F32, 10000.0),
        ("llama.rope.dimension_count", U32, shape["d"] // shape["heads"]),
        ("llama.vocab_size", U32, len(vocabulary["tokens"])),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "qwen2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, vocabulary["tokens"])),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [3 if t in control else 1 for t in vocabulary["tokens"]])),
        ("tokenizer.ggml.merges", ARRAY, (STRING, vocabulary["merges"])),
        ("tokenizer.ggml.eos_token_id", U32, end),
        ("tokenizer.ggml.eot_token_id", U32, end),
        ("tokenizer.ggml.padding_token_id", U32, vocabulary["tokens"].index("<|pad|>")),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE),
    ]
    names = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
             "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    tensors = [("token_embd.weight", weights["embedding.weight"]), ("output_norm.weight", weights["norm.weight"])]
    for i in range(shape["layers"]):
        tensors += [(f"blk.{i}.{gguf}.weight", weights[f"blocks.{i}.{ours}.weight"]) for ours, gguf in names.items()]

    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    header += b"".join(string(k) + struct.pack("<I", kind) + value(kind, v) for k, kind, v in keys)
    body = b""
    for name, w in tensors:
        kind = TENSOR_F32 if w.ndim == 1 else TENSOR_Q8_0
        header += string(name) + struct.pack("<I", w.ndim) + struct.pack(f"<{w.ndim}Q", *reversed(w.shape))
        header += struct.pack("<IQ", kind, len(body))
        body += w.astype("<f4").tobytes() if kind == TENSOR_F32 else q8_0(w)
        body += b"\0" * (-len(body) % 32)
    data = header + b"\0" * (-len(header) % 32) + body
    with open(options.out, "wb") as file:
        file.write(data)
    print(f"{options.out}: {len(data)} bytes, sha256:{hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
