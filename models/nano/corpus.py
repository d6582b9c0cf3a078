#!/usr/bin/env python3
"""Writes the training conversations: JSON lines of {"turns": [[question, answer], ...], "intent": ...}.

  corpus.py --seed 1 --count 200000 > corpus.jsonl

Everything comes from the text files in corpus/: intents with their answers and the ways people ask,
a lexicon of words that stand for one another, ordinary questions outside svc, and follow-ups. The
same seed and count give the same bytes.
"""
import argparse, json, random, re, sys
from pathlib import Path

HERE = Path(__file__).parent / "corpus"


def read_lexicon(path):
    words = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, alternatives = line.split(" = ", 1)
            words[name] = [a.strip() for a in alternatives.split("|")]
    return words


def read_swaps(path):
    """Each phrase with those that may stand for it."""
    swaps = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            phrases = [phrase.strip() for phrase in line.split(" | ")]
            for phrase in phrases:
                swaps[phrase] = swaps.get(phrase, []) + [other for other in phrases if other != phrase]
    return swaps


def read_intents(path):
    """`= name`, then `a answer` lines and `q question template` lines."""
    intents, current = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("= "):
            current = intents.setdefault(line[2:].strip(), {"a": [], "q": []})
        elif line[:2] in ("a ", "q "):
            current[line[0]].append(line[2:].strip())
    return intents


def provider_intents(names, templates):
    """An intent for each provider's key and one for asking it, from the templates for any."""
    intents = {}
    for line in names.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, variable = (part.strip() for part in line.split("|"))
        for kind, found in read_intents(templates).items():
            intents[f"{kind}-{name}"] = {
                key: [text.replace("{provider}", name).replace("{variable}", variable) for text in found[key]] for key in "aq"
            }
    return intents


def read_outside(path):
    slots, frames = {}, []
    for line in path.read_text().splitlines():
        if line.startswith("@"):
            name, words = line[1:].split(" = ", 1)
            slots[name] = [w.strip() for w in words.split("|")]
        elif line.startswith("q "):
            frames.append(line[2:].strip())
    return slots, frames


def read_followups(path):
    rules, current = [], None
    for line in path.read_text().splitlines():
        match = re.match(r"(?:after (.*) )?> (\S+)$", line)
        if match:
            current = {"after": set(match[1].split()) if match[1] else None, "to": match[2], "q": []}
            rules.append(current)
        elif line.startswith("q "):
            current["q"].append(line[2:].strip())
    return rules


class Writer:
    """Expands templates: (a|b) picks one, [x] is there half the time, <name> is a word of the lexicon."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lexicon = read_lexicon(HERE / "lexicon.txt")
        self.swaps = read_swaps(HERE / "swaps.txt")
        phrases = sorted(self.swaps, key=len, reverse=True)
        self.swappable = re.compile(r"\b(?:" + "|".join(map(re.escape, phrases)) + r")\b")
        self.intents = {}
        for name in ("svc", "models", "providers", "concepts", "talk"):
            for intent, found in read_intents(HERE / f"{name}.txt").items():
                known = self.intents.setdefault(intent, {"a": [], "q": []})
                known["a"] += found["a"]
                known["q"] += found["q"]
        self.intents.update(provider_intents(HERE / "provider-names.txt", HERE / "provider-templates.txt"))
        self.facts = []
        for line in (HERE / "facts.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                questions, answer = line.split(" | ")
                self.facts.append(([q.strip() for q in questions.split(";")], answer.strip()))
        self.unknown = (HERE / "unknown.txt").read_text().splitlines()
        self.slots, self.frames = read_outside(HERE / "outside.txt")
        self.followups = read_followups(HERE / "followups.txt")
        for rule in self.followups:
            assert rule["to"] in self.intents, rule["to"]
        self.names = sorted(self.intents)
        self.in_order = list(self.intents)
        self.order = {name: i for i, name in enumerate(self.in_order)}

    def pseudo(self):
        r = self.random
        return "".join(r.choice("bcdfghjklmnprstvwz") + r.choice("aeiou") + r.choice(["", "", "n", "r", "s", "l", "x"])
                       for _ in range(r.randint(1, 3)))

    def expand(self, template):
        r = self.random
        while True:
            match = re.search(r"\[([^\[\]<>()]*(?:<[a-z]+>[^\[\]<>()]*)*)\]", template)
            if not match:
                break
            template = template[:match.start()] + (match[1] if r.random() < 0.5 else "") + template[match.end():]
        while True:
            match = re.search(r"\(([^()]*\|[^()]*)\)", template)
            if not match:
                break
            template = template[:match.start()] + r.choice(match[1].split("|")) + template[match.end():]

        def word(match):
            name = match[1]
            if name == "pseudo":
                return self.pseudo()
            if name == "number":
                return str(r.randint(2, 999))
            return r.choice(self.lexicon.get(name) or self.slots[name])

        for _ in range(3):
            template = re.sub(r"<([a-z]+)>", word, template)
        return re.sub(r"\s+", " ", template).strip()

    def typo(self, text):
        r = self.random
        words = text.split(" ")
        i = r.randrange(len(words))
        w = words[i]
        if len(w) > 3 and w.isalpha():
            k = r.randrange(1, len(w) - 1)
            words[i] = r.choice([w[:k] + w[k + 1:], w[:k] + w[k + 1] + w[k] + w[k + 2:], w[:k] + w[k] + w[k:],
                                 w[:k] + r.choice("abcdefghijklmnopqrstuvwxyz") + w[k + 1:]])
        return " ".join(words)

    def noise(self, text, short=False):
        """What people do to a question: manners, dropped words, typos, capitals, punctuation."""
        r = self.random
        if not short:
            if r.random() < 0.10:
                text = r.choice(["hi, ", "hello, ", "please ", "hey ", "ok ", "so ", "um ", "quick question: ", "excuse me, ", "well, ",
                                 "now ", "sorry, ", "i wonder, ", "say, ", "just tell me, ", "one more thing: "]) + text
            if r.random() < 0.08:
                text += r.choice([" please", " thanks", " in svc", " with svc", " again", " exactly", " quickly", " on my machine",
                                  " on linux", " here", " now", " on this computer", ", i forgot", ", any idea", ", can you tell me"])
        words = text.split(" ")
        if len(words) > 4 and r.random() < 0.12:
            small = [i for i, w in enumerate(words) if w in
                     {"the", "a", "an", "do", "i", "to", "is", "of", "my", "it", "can", "for", "in", "does", "me", "please"}]
            if small:
                del words[r.choice(small)]
        text = " ".join(words)
        if r.random() < 0.14:
            text = self.typo(text)
        if r.random() < 0.04:
            text = self.typo(text)
        case = r.random()
        if case < 0.45:
            text = text[:1].upper() + text[1:]
        elif case < 0.47:
            text = text.upper()
        if r.random() < 0.2:
            text = re.sub(r"\bi\b", "I", text)
        end = r.random()
        if end < 0.5:
            text += "?"
        elif end < 0.6:
            text += r.choice([".", "!", "??", " ?", "..."])
        return text

    def swap(self, text):
        """One phrase for another that means the same."""
        found = list(self.swappable.finditer(text))
        if not found:
            return text
        match = self.random.choice(found)
        return text[:match.start()] + self.random.choice(self.swaps[match[0]]) + text[match.end():]

    def question(self, name):
        text = self.expand(self.random.choice(self.intents[name]["q"]))
        while self.random.random() < 0.3:
            text = self.swap(text)
        return self.noise(text)

    def answer(self, name):
        return self.random.choice(self.intents[name]["a"])

    def arithmetic(self):
        """Mostly sums of two-digit numbers; differences, and the table of twelve."""
        r = self.random
        kind = r.random()
        question = None
        if kind < 0.62:
            a, b = r.randint(0, 99), r.randint(0, 99)
            sign, word, c = "+", r.choice(["+", "plus", "and"]), a + b
            if r.random() < 0.1:
                question = f"add {a} and {b}"
            elif r.random() < 0.1:
                question = f"sum of {a} and {b}"
        elif kind < 0.85:
            a, b = sorted((r.randint(0, 99), r.randint(0, 99)), reverse=True)
            sign, word, c = "-", r.choice(["-", "minus"]), a - b
        else:
            a, b = r.randint(0, 12), r.randint(0, 12)
            sign, word, c = "*", r.choice(["*", "times", "x"]), a * b
        if question is None:
            form = r.choice(["what is {}", "{}", "how much is {}", "compute {}", "{} =", "what's {}", "calculate {}"])
            glue = "" if word in "+-*" and r.random() < 0.3 else " "
            question = form.format(f"{a}{glue}{word}{glue}{b}")
        return self.noise(question, short=True) if r.random() < 0.5 else question + "?", f"{a} {sign} {b} = {c}"

    def sum(self):
        question, answer = self.arithmetic()
        return {"turns": [[question, answer]], "intent": "arithmetic"}

    def turn(self):
        """(intent, question, answer) of a question that stands alone."""
        r = self.random
        kind = r.random()
        if kind < 0.58:
            name = r.choice(self.names)
            return name, self.question(name), self.answer(name)
        if kind < 0.82:
            return "unknown", self.noise(self.expand(r.choice(self.frames))), r.choice(self.unknown)
        if kind < 0.93:
            question, answer = self.arithmetic()
            return "arithmetic", question, answer
        number = r.randrange(len(self.facts))
        questions, answer = self.facts[number]
        return f"fact-{number}", self.noise(r.choice(questions)), answer

    def labels(self):
        """Every intent that a turn can have."""
        return self.names + ["unknown", "arithmetic"] + [f"fact-{i}" for i in range(len(self.facts))]

    def conversation(self):
        """Up to three turns; the later ones follow up, or ask of something near or new."""
        r = self.random
        name, question, answer = self.turn()
        turns = [[question, answer]]
        while len(turns) < 3 and r.random() < 0.2:
            rules = [rule for rule in self.followups if rule["after"] is None or name in rule["after"]]
            special = [rule for rule in rules if rule["after"]]
            if r.random() < 0.65:
                rule = r.choice(special) if special and r.random() < 0.7 else r.choice(rules)
                name = rule["to"]
                turns.append([self.noise(r.choice(rule["q"]), short=True), self.answer(name)])
            elif name in self.order and r.random() < 0.5:
                # Intents that stand near each other in the files belong to one subject.
                at = self.order[name] + r.choice([-3, -2, -1, 1, 2, 3])
                name = self.in_order[at % len(self.in_order)]
                turns.append([r.choice(["and ", "ok, and ", "then ", "also, ", "so "]) + self.question(name), self.answer(name)])
            else:
                name, question, answer = self.turn()
                turns.append([question, answer])
        return {"turns": turns, "intent": name}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200_000)
    options = parser.parse_args()
    writer = Writer(options.seed)
    for _ in range(options.count):
        sys.stdout.write(json.dumps(writer.conversation()) + "\n")


if __name__ == "__main__":
    main()
