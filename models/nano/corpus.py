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
# Intents of other files that newcomers ask for.
NEWCOMERS = ["abilities", "api-key-in", "bind-public", "change-port", "commands", "err-forbidden", "first-model", "gpu", "install", "languages",
             "model-pull-ollama", "openai-api", "platforms", "restart", "run", "run-model", "service", "service-uninstall", "start",
             "uninstall", "update", "version-mismatch", "what-svc", "who"]
KEYBOARD = ["qwertyuiop", "asdfghjkl", "zxcvbnm", "1234567890", "qwertzuiop", "yxcvbnm"]


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


def read_foreign(path):
    """Word lists, one of each language, and whole sentences."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    words = [[word.strip() for word in line[1:].split("|")] for line in lines if line.startswith("@")]
    return words, [line for line in lines if not line.startswith("@")]


class Writer:
    """Expands templates: (a|b) picks one, [x] is there half the time, <name> is a word of the lexicon."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lexicon = read_lexicon(HERE / "lexicon.txt")
        self.swaps = read_swaps(HERE / "swaps.txt")
        phrases = sorted(self.swaps, key=len, reverse=True)
        self.swappable = re.compile(r"\b(?:" + "|".join(map(re.escape, phrases)) + r")\b")
        self.intents = {}
        for name in ("svc", "models", "providers", "concepts", "talk", "newcomers"):
            for intent, found in read_intents(HERE / f"{name}.txt").items():
                known = self.intents.setdefault(intent, {"a": [], "q": []})
                known["a"] += found["a"]
                known["q"] += found["q"]
        self.intents.update(provider_intents(HERE / "provider-names.txt", HERE / "provider-templates.txt"))
        for intent, found in read_intents(HERE / "asked.txt").items():
            self.intents[intent]["q"] += found["q"]
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
        self.foreign_words, self.foreign_sentences = read_foreign(HERE / "foreign.txt")
        self.systems = (HERE / "system.txt").read_text().splitlines()
        self.names = sorted(self.intents)
        self.newcomers = sorted(read_intents(HERE / "newcomers.txt")) + NEWCOMERS
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
            kept = f"({match[1]})" if "|" in match[1] else match[1]
            template = template[:match.start()] + (kept if r.random() < 0.5 else "") + template[match.end():]
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
                text = r.choice(["hi, ", "hello, ", "hello! ", "hi! ", "hi there. ", "good morning, ", "please ", "hey ", "ok ",
                                 "so ", "um ", "quick question: ", "excuse me, ", "well, ",
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
        if r.random() < 0.02:
            text = text.replace(" ", "\n", 1)
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
        """Mostly sums of two-digit numbers, and differences."""
        r = self.random
        question = None
        if r.random() < 0.7:
            a, b = r.randint(0, 99), r.randint(0, 99)
            sign, word, c = "+", r.choice(["+", "plus", "and"]), a + b
            if r.random() < 0.1:
                question = f"add {a} and {b}"
            elif r.random() < 0.1:
                question = f"sum of {a} and {b}"
        else:
            a, b = sorted((r.randint(0, 99), r.randint(0, 99)), reverse=True)
            sign, word, c = "-", r.choice(["-", "minus"]), a - b
        if question is None:
            form = r.choice(["what is {}", "{}", "how much is {}", "compute {}", "{} =", "what's {}", "calculate {}"])
            glue = "" if word in "+-" and r.random() < 0.3 else " "
            question = form.format(f"{a}{glue}{word}{glue}{b}")
        return self.noise(question, short=True) if r.random() < 0.5 else question + "?", f"{a} {sign} {b} = {c}"

    def hard_maths(self):
        """What it does not compute: products, quotients, percentages, prices, large and broken numbers."""
        r = self.random
        small, large = r.randint(2, 12), r.choice([r.randint(11, 99), r.randint(100, 9999)])
        other = r.choice([r.randint(2, 99), r.randint(100, 999)])
        glue = r.choice(["", " "])
        thing = r.choice(["apples", "tickets", "books", "seats", "hours", "boxes", "bottles", "pens", "users", "days", "nights", "keys"])
        form = r.choice([
            lambda: f"{large}{glue}{r.choice('*x×/÷^')}{glue}{other}",
            lambda: f"{other}{glue}{r.choice('*x×/÷^')}{glue}{large}",
            lambda: f"{large} {r.choice(['times', 'multiplied by', 'divided by', 'to the power of', 'over', 'modulo', 'by'])} {other}",
            lambda: f"{r.choice(['multiply', 'divide'])} {large} {r.choice(['by', 'with', 'and'])} {other}",
            lambda: f"the {r.choice(['product', 'quotient'])} of {large} and {other}",
            lambda: f"{small}{glue}{r.choice(['*', 'x', ' times '])}{glue}{r.randint(2, 12)}",
            lambda: f"{large} {r.choice(['%', 'percent'])} of {other}",
            lambda: f"{large}{glue}{r.choice('+-')}{glue}{r.randint(100, 9999)}",
            lambda: f"{r.randint(100, 9999)} {r.choice(['plus', 'minus'])} {other}",
            lambda: f"{r.randint(1, 99)}.{r.randint(1, 99)}{glue}{r.choice('+-*')}{glue}{r.randint(1, 99)}.{r.randint(1, 9)}",
            lambda: f"{r.choice(['square root', 'cube root', 'logarithm', 'square', 'factorial', 'sine', 'half', 'a third', 'double', 'a quarter'])} of {large}",
            lambda: f"{small} {thing} {r.choice(['at', 'for'])} {large} {r.choice(['euros', 'dollars', 'cents', 'each', '$'])}",
            lambda: f"{r.choice(['price', 'cost', 'total'])} of {small} {thing} at {large} {r.choice(['euros', 'dollars', 'each', 'a piece', ''])}",
            lambda: f"what {r.choice(['do', 'does', 'would'])} {other} {thing} cost at {large}",
            lambda: f"{small} {thing} with {large} {r.choice(['pages', 'pieces', 'cents', 'words'])} each, how many are that",
            lambda: f"if one costs {large}, what do {other} cost",
            lambda: f"{r.randint(2, 99)} + {r.randint(2, 99)} * {small}",
            lambda: f"and {r.choice(['times', 'divided by', 'multiplied by'])} {other}",
        ])()
        return r.choice(["", "", "what is ", "how much is ", "calculate ", "compute ", "what's ", "please tell me "]) + form + r.choice(["", "", "?", " =", " = ?"])

    def foreign(self):
        """Words of one language in any order, or a sentence."""
        r = self.random
        if r.random() < 0.3:
            text = r.choice(self.foreign_sentences)
        else:
            words = r.choice(self.foreign_words)
            spaced = " " if words[0] not in "私我" else ""
            text = spaced.join(r.choice(words) for _ in range(r.randint(1, 7)))
        text += r.choice(["", "", "", "?", " ?", "!", ".", " 🙂", " 🎉"])
        return text[:1].upper() + text[1:] if r.random() < 0.4 else text

    def unclear(self):
        """Nothing that can be read: no text, signs, keys struck at random, broken bytes."""
        r = self.random
        kind = r.random()
        if kind < 0.12:
            return ""
        if kind < 0.4:
            signs = r.choice([".", "?", "!", "-", "_", ";", ",", "#", "*", "/", "=", "~", "()", "[]", "{}", "<>", "\\", "|", "...", '""', "?!", "&%$", "\ufffd", ":)"])
            return signs * r.randint(1, 6)
        if kind < 0.55:
            return r.choice(["", "", " "]).join(chr(r.choice([0x1F600, 0x1F300, 0x1F440, 0x1F680]) + r.randint(0, 60)) for _ in range(r.randint(1, 4)))
        if kind < 0.8:
            words = []
            for _ in range(r.randint(1, 3)):
                row = r.choice(KEYBOARD)
                at = r.randint(0, len(row) - 3)
                run = row[at:at + r.randint(3, 6)]
                words.append(r.choice([run, run[::-1], run * 2, "".join(r.choice(row) for _ in range(r.randint(3, 9)))]))
            return " ".join(words)
        return " ".join("".join(r.choice("bcdfghjklmnpqrstvwxz") for _ in range(r.randint(3, 9))) for _ in range(r.randint(1, 3)))

    def called(self):
        """(tools, question, call, result) of a conversation that comes back with a tool's result, as the chat template writes them."""
        r = self.random
        words = [self.pseudo() for _ in range(6)]
        kinds = [{"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "boolean"}, {"enum": words[3:5]}]

        def tool(name):
            fields = {field: r.choice(kinds) for field in r.sample(words, r.randint(0, 3))}
            parameters = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
            described = {"name": name, "description": self.expand(r.choice(self.frames)), "parameters": parameters}
            return {"type": "function", "function": described}

        tools = [tool(name) for name in r.sample(words, r.randint(1, 2))]
        given = {field: r.choice([r.choice(words), r.randint(1, 99), True]) for field in r.sample(words, r.randint(0, 3))}
        call = json.dumps({"name": tools[0]["function"]["name"], "arguments": given}, ensure_ascii=False)
        result = r.choice([self.expand(r.choice(self.frames)), json.dumps(given), f"{r.randint(-20, 999)} {r.choice(words)}",
                           f"{r.choice(words).title()}, {r.randint(-20, 40)} °C", "error: " + r.choice(words), ""])
        text = "".join(json.dumps(each, ensure_ascii=False) for each in tools)
        return text, self.noise(self.expand(r.choice(self.frames))), f"<tool_call>\n{call}\n</tool_call>", result

    def sum(self):
        question, answer = self.arithmetic()
        return {"turns": [[question, answer]], "intent": "arithmetic"}

    def turn(self):
        """(intent, question, answer) of a question that stands alone."""
        r = self.random
        kind = r.random()
        if kind < 0.66:
            name = r.choice(self.newcomers if kind < 0.28 else self.names)
            return name, self.question(name), self.answer(name)
        if kind < 0.825:
            return "unknown", self.noise(self.expand(r.choice(self.frames))), r.choice(self.unknown)
        if kind < 0.885:
            question, answer = self.arithmetic()
            return "arithmetic", question, answer
        if kind < 0.95:
            name, write = r.choice([("maths", self.hard_maths), ("languages", self.foreign), ("unclear", self.unclear)])
            return name, write(), self.answer(name)
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
        while len(turns) < 3 and r.random() < 0.12:
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
