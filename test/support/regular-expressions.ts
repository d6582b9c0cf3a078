/** The regular expressions of a source file, and how long they take. */
import { Worker } from 'node:worker_threads';
import ts from 'typescript';
import type { Pump } from './pumped-strings.ts';

export interface Expression {
  /** `path:line`. */
  readonly place: string;
  /** As written, with its flags; null: it is put together while the program runs. */
  readonly text: string | null;
}

export function expressionsIn(path: string, text: string): Expression[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const found: Expression[] = [];
  const visit = (node: ts.Node): void => {
    const place = `${path}:${String(source.getLineAndCharacterOfPosition(node.getStart()).line + 1)}`;
    if (ts.isRegularExpressionLiteral(node)) found.push({ place, text: node.text });
    else if ((ts.isNewExpression(node) || ts.isCallExpression(node)) && node.expression.getText() === 'RegExp')
      found.push({ place, text: null });
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

export function toRegExp(text: string): RegExp {
  const end = text.lastIndexOf('/');
  return new RegExp(text.slice(1, end), text.slice(end + 1));
}

export interface Slow {
  readonly pump: Pump;
  /** How many times longer it takes for eight times the text; null: it did not end. */
  readonly ratio: number | null;
}

const MIB = 1024 * 1024;
/** Eight times the text: linear is 8, quadratic 64. */
const MOST_RATIO = 24;
/** Of processor time. Below this it is too short to be measured, and too short to hurt. */
const FLOOR_MS = 10;
/** For one expression at all its strings. A linear one takes a second. */
const DEADLINE_MS = 60_000;

/** Runs in a thread of its own, which can be ended in the middle of a match. */
const MEASURE = `
const { parentPort } = require('node:worker_threads');
// Flat: the time to put a rope together is not the expression's.
const textOf = ({ prefix, unit, end }, length) =>
  Buffer.from(prefix + unit.repeat(Math.ceil(length / unit.length)) + end).toString();
// Of the process, which does nothing else: other work on the machine does not count.
const timeOf = (expression, text) => {
  expression.lastIndex = 0;
  const from = process.cpuUsage();
  if (expression.global) text.replace(expression, '');
  else expression.exec(text);
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1000;
};
const least = (expression, text) => Math.min(...Array.from({ length: 3 }, () => timeOf(expression, text)));
const ratioOf = (expression, pump, length) => {
  const long = textOf(pump, length);
  if (timeOf(expression, long) < ${String(FLOOR_MS)}) return null;
  const short = least(expression, textOf(pump, length / 8));
  const ratio = least(expression, long) / Math.max(short, 0.01);
  return ratio > ${String(MOST_RATIO)} ? ratio : null;
};
parentPort.on('message', ({ source, flags, pumps }) => {
  const expression = new RegExp(source, flags);
  for (const pump of pumps) {
    parentPort.postMessage({ pump });
    for (const length of [${String(MIB / 64)}, ${String(MIB / 8)}, ${String(MIB)}]) {
      const ratio = ratioOf(expression, pump, length);
      if (ratio !== null) return parentPort.postMessage({ slow: { pump, ratio } });
    }
  }
  parentPort.postMessage({ slow: null });
});
`;

type Message = { readonly pump: Pump } | { readonly slow: Slow | null };

/** Measures one expression after the other. */
export class Stopwatch {
  #worker = new Worker(MEASURE, { eval: true });

  /** The first of the strings for which the expression takes worse than linear time. null: none. */
  async measure({ source, flags }: RegExp, pumps: readonly Pump[], deadlineMs = DEADLINE_MS): Promise<Slow | null> {
    let last = pumps[0] as Pump;
    const worker = this.#worker;
    const slow = await new Promise<Slow | null>((resolve) => {
      const timer = setTimeout(() => end({ pump: last, ratio: null }), deadlineMs);
      const listen = (message: Message): void => {
        if ('pump' in message) last = message.pump;
        else end(message.slow);
      };
      const end = (result: Slow | null): void => {
        clearTimeout(timer);
        worker.off('message', listen);
        resolve(result);
      };
      worker.on('message', listen);
      worker.postMessage({ source, flags, pumps });
    });
    if (slow?.ratio === null) {
      await worker.terminate();
      this.#worker = new Worker(MEASURE, { eval: true });
    }
    return slow;
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
