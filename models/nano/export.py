#!/usr/bin/env python3
"""Writes the trained parameters as a GGUF of llama's architecture, matrices in Q8_0, norms in F32.

  export.py --parameters nano.f32 --tokenizer tokenizer.json --out nano.gguf
"""
import argparse, hashlib, json, struct
import numpy as np

# The model was not trained to choose a tool: tools are named in the prompt only beside a result, so that a question is
# answered as without them. A call is made only where it must be; then its grammar writes most of it.
TEMPLATE = (
    "{% set chat = namespace(results=false) %}"
    "{% for message in messages %}{% if message.role == 'tool' %}{% set chat.results = true %}{% endif %}{% endfor %}"
    "{% if tools and chat.results %}<|system|>{% for tool in tools %}{{ tool | tojson }}{% endfor %}<|end|>{% endif %}"
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}<|user|>{% else %}<|{{ message['role'] }}|>{% endif %}{{ message['content'] | trim }}"
    "{% if message.tool_calls %}{% for call in message.tool_calls %}"
    "{% if message.content or not loop.first %}{{ '\\n' }}{% endif %}"
    "{{ '<tool_call>\\n{\"name\": \"' }}{{ call.function.name }}{{ '\", \"arguments\": ' }}"
    "{{ call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}{% endfor %}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}")
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
TENSOR_F32, TENSOR_Q8_0 = 0, 8
HEAD = 32  # size of an attention head, as in train.cc


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


def read_parameters(path, shape, vocabulary):
    """The matrices by their names in a GGUF, from the flat file that train.cc writes, in its order."""
    flat = np.fromfile(path, "<f4")
    d, hidden, at = shape["width"], shape["hidden"], 0

    def take(*size):
        nonlocal at
        at += int(np.prod(size))
        return flat[at - int(np.prod(size)):at].reshape(size)

    tensors = {"token_embd": take(vocabulary, d)}
    for i in range(shape["layers"]):
        tensors[f"blk.{i}.attn_norm"] = take(d)
        for name in ("attn_q", "attn_k", "attn_v"):
            tensors[f"blk.{i}.{name}"] = take(d, d)
        tensors[f"blk.{i}.attn_output"] = take(d, d)
        tensors[f"blk.{i}.ffn_norm"] = take(d)
        for name in ("ffn_gate", "ffn_up"):
            tensors[f"blk.{i}.{name}"] = take(hidden, d)
        tensors[f"blk.{i}.ffn_down"] = take(d, hidden)
    tensors["output_norm"] = take(d)
    assert at == flat.size, f"{path} has {flat.size} parameters, this shape needs {at}"
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", default="nano.f32")
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--out", default="nano.gguf")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=512)
    options = parser.parse_args()
    shape = vars(options)
    vocabulary = json.load(open(options.tokenizer))
    tensors = read_parameters(options.parameters, shape, len(vocabulary["tokens"]))
    end = vocabulary["tokens"].index("<|end|>")
    parameters = sum(w.size for w in tensors.values())

    keys = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "svc nano"),
        ("general.description", STRING, "svc's built-in model: small, knows svc and little else"),
        ("general.license", STRING, "MIT"),
        ("general.size_label", STRING, f"{parameters / 1e6:.1f}M"),
        ("general.file_type", U32, 7),
        ("general.quantization_version", U32, 2),
        ("general.sampling.temp", F32, 0.0),  # one intent, one answer: the likeliest token
        ("llama.context_length", U32, 2048),
        ("llama.embedding_length", U32, shape["width"]),
        ("llama.block_count", U32, shape["layers"]),
        ("llama.feed_forward_length", U32, shape["hidden"]),
        ("llama.attention.head_count", U32, shape["width"] // HEAD),
        ("llama.attention.head_count_kv", U32, shape["width"] // HEAD),
        ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        ("llama.rope.freq_base", F32, 10000.0),
        ("llama.rope.dimension_count", U32, HEAD),
        ("llama.vocab_size", U32, len(vocabulary["tokens"])),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "qwen2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, vocabulary["tokens"])),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [3 if t.startswith("<|") else 1 for t in vocabulary["tokens"]])),
        ("tokenizer.ggml.merges", ARRAY, (STRING, vocabulary["merges"])),
        ("tokenizer.ggml.eos_token_id", U32, end),
        ("tokenizer.ggml.eot_token_id", U32, end),
        ("tokenizer.ggml.padding_token_id", U32, vocabulary["tokens"].index("<|pad|>")),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE),
    ]
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    header += b"".join(string(k) + struct.pack("<I", kind) + value(kind, v) for k, kind, v in keys)
    body = b""
    for name, w in tensors.items():
        kind = TENSOR_F32 if w.ndim == 1 else TENSOR_Q8_0
        header += string(f"{name}.weight") + struct.pack("<I", w.ndim) + struct.pack(f"<{w.ndim}Q", *reversed(w.shape))
        header += struct.pack("<IQ", kind, len(body))
        body += w.astype("<f4").tobytes() if kind == TENSOR_F32 else q8_0(w)
        body += b"\0" * (-len(body) % 32)
    data = header + b"\0" * (-len(header) % 32) + body
    with open(options.out, "wb") as file:
        file.write(data)
    print(f"{options.out}: {len(data)} bytes, sha256:{hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
