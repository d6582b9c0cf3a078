/** Questions for the built-in model and their accepted answers, from the text files of models/nano. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NANO = fileURLToPath(new URL('../../models/nano', import.meta.url));

/** Intent of answers to questions that are neither about svc nor small talk. */
export const UNKNOWN = 'unknown';
export const ARITHMETIC = 'arithmetic';

export const PARTS = ['svc', 'outside', 'limits', 'system', 'turns', 'arithmetic', 'facts'] as const;

export interface Question {
  readonly part: (typeof PARTS)[number];
  /** System prompt; the answer must be the same as without it. */
  readonly system?: string;
  /** User turns; the answer to the last one is scored. */
  readonly turns: readonly string[];
  /** Accepted intents. */
  readonly intents: readonly string[];
  /** The right answer, if it does not belong to an intent. */
  readonly answer?: string;
}

/** Reads the questions of `evaluation` or `development`. */
export function readQuestions(folder: 'evaluation' | 'development'): Question[] {
  const lines = (part: Question['part']): string[] => read(join(folder, `${part}.txt`));
  const labelled = (part: 'svc' | 'limits' | 'system' | 'turns'): Question[] =>
    lines(part).map((line) => {
      const [intents = '', ...turns] = line.split(' | ');
      return { part, turns, intents: intents.split(',').map((intent) => intent.trim()) };
    });
  const withSystem = labelled('system').map((question): Question => {
    const [system = '', ...turns] = question.turns;
    return { ...question, system, turns };
  });
  return [
    ...labelled('svc'),
    ...lines('outside').map((line): Question => ({ part: 'outside', turns: [line], intents: [UNKNOWN] })),
    ...labelled('limits'),
    ...withSystem,
    ...labelled('turns'),
    ...sums(),
    ...readFacts().flatMap(({ questions, answer }, number) =>
      questions.map((question): Question => ({ part: 'facts', turns: [question], intents: [factOf(number)], answer })),
    ),
  ];
}

const factOf = (number: number): string => `fact-${String(number)}`;

/** The everyday facts that it learned, with the questions that it learned them by: it can know no others. */
function readFacts(): { questions: string[]; answer: string }[] {
  return read(join('corpus', 'facts.txt')).map((line) => {
    const [questions = '', answer = ''] = line.split(' | ');
    return { questions: questions.split(';'), answer };
  });
}

/** Plain questions of the corpus, without alternatives to choose from: of each intent that has such, the first and the last. */
export function readLearned(): string[] {
  return ['svc', 'models', 'providers', 'concepts', 'talk', 'newcomers'].flatMap((name) =>
    [...readIntents(`${name}.txt`, 'q ').values()].flatMap((questions) => {
      const plain = questions.filter((question) => !/[([<]/.test(question));
      return [...new Set([...plain.slice(0, 1), ...plain.slice(-1)])];
    }),
  );
}

/** Answers by intent. */
export function readAnswers(): Map<string, readonly string[]> {
  const answers = new Map<string, readonly string[]>();
  for (const name of ['svc', 'models', 'providers', 'concepts', 'talk', 'newcomers']) {
    for (const [intent, texts] of readIntents(`${name}.txt`)) answers.set(intent, texts);
  }
  const templates = readIntents('provider-templates.txt');
  for (const line of read(join('corpus', 'provider-names.txt'))) {
    const [provider = '', variable = ''] = line.split(' | ');
    for (const [kind, texts] of templates) {
      const filled = texts.map((text) => text.replaceAll('{provider}', provider).replaceAll('{variable}', variable));
      answers.set(`${kind}-${provider}`, filled);
    }
  }
  answers.set(UNKNOWN, read(join('corpus', 'unknown.txt')));
  for (const [number, { answer }] of readFacts().entries()) answers.set(factOf(number), [answer]);
  return answers;
}

/** A sample of sums of two-digit numbers, evenly spread. */
function sums(): Question[] {
  const questions: Question[] = [];
  for (let i = 0; i < 50; i++) {
    const [a, b] = [10 + ((i * 37) % 90), 10 + ((i * i * 7 + 11) % 90)];
    const turns = [`what is ${String(a)} + ${String(b)}?`];
    const answer = `${String(a)} + ${String(b)} = ${String(a + b)}`;
    questions.push({ part: 'arithmetic', turns, intents: [ARITHMETIC], answer });
  }
  return questions;
}

/** Parses `= intent` lines, each followed by lines with an answer (`a `) or a question (`q `). Collects those of a kind. */
function readIntents(file: string, kind: 'a ' | 'q ' = 'a '): Map<string, string[]> {
  const intents = new Map<string, string[]>();
  let texts: string[] = [];
  for (const line of read(join('corpus', file))) {
    if (line.startsWith('= ')) intents.set(line.slice(2), (texts = []));
    else if (line.startsWith(kind)) texts.push(line.slice(kind.length));
  }
  return intents;
}

/** Returns the lines that are neither empty nor comments. */
function read(path: string): string[] {
  const lines = readFileSync(join(NANO, path), 'utf8').split('\n');
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}
