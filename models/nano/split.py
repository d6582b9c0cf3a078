#!/usr/bin/env python3
"""Shows that no question of evaluation/ or development/ can be written by a template of corpus/.

  split.py

Case, punctuation and spaces don't count. system.txt is left out: what is new there is the system prompt. Templates with alternatives are written out many times.
Prints what is in both, and exits 1 then.
"""
import re, sys

from corpus import HERE, Writer

TRIES = 200


def normal(text):
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def main():
    writer = Writer(1)
    templates = [q for found in writer.intents.values() for q in found["q"]] + writer.frames
    templates += [q for rule in writer.followups for q in rule["q"]] + [q for questions, _ in writer.facts for q in questions]
    trained = {normal(writer.expand(t)) for t in templates for _ in range(TRIES if re.search(r"[<(\[]", t) else 1)}
    shared = []
    for folder in ("evaluation", "development"):
        for name in ("svc", "outside", "limits", "turns"):
            for line in (HERE.parent / folder / f"{name}.txt").read_text().splitlines():
                if not line.startswith("#") and normal(line.split(" | ")[-1]) in trained - {""}:
                    shared.append(f"{folder}/{name}.txt: {line}")
    print("\n".join(shared + [f"{len(shared)} questions in both, {len(trained)} ways to ask in the corpus"]))
    sys.exit(1 if shared else 0)


if __name__ == "__main__":
    main()
