/** Finds the regular expressions of a source file and measures their running time. */
import { Worker } from 'node:worker_threads';
import ts from 'typescript';
import type { Pump } from './pumped-strings.ts';

export interface Expression {
  /** `path:line`. */
  readonly place: string;
  /** Literal with its flags; null if the expression is built at run time. */
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
  /** Time for the text divided by time for an eighth of it; null if the match did not end by the deadline. */
  readonly ratio: number | null;
}

const MIB = 1024 * 1024;
/** Highest accepted ratio for eight times the text: a linear expression has 8, a quadratic one 64. */
const MOST_RATIO = 24;
const MEASUREMENTS = 3;
/** CPU time. A shorter match cannot be measured reliably and does no harm. */
const FLOOR_MS = 10;
/** CPU time for one expression with all its strings. A linear expression takes about a second. */
const DEADLINE_MS = 60_000;

/** Runs in a worker thread, which can be terminated in the middle of a match. */
const MEASURE = `
const { parentPort } = require('node:worker_threads');
// The round trip through a Buffer flattens V8's rope string, so that flattening is not part of the measurement.
const textOf = ({ prefix, unit, end }, length) =>
  Buffer.from(prefix + unit.repeat(Math.ceil(length / unit.length)) + end).toString();
// CPU time of this process, which does nothing else; other load on the machine does not count.
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
  const short = textOf(pump, length / 8);
  let ratio = Infinity;
  // The collector's threads count as well, so one measurement may be far too high; a slow expression stays slow.
  for (let time = 0; time < ${String(MEASUREMENTS)} && ratio > ${String(MOST_RATIO)}; time += 1)
    ratio = Math.min(ratio, least(expression, long) / Math.max(least(expression, short), 0.01));
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

/** Measures expressions, one at a time. */
export class Stopwatch {
  #worker = new Worker(MEASURE, { eval: true });

  /** Returns the first string on which the expression takes super-linear time; null if there is none. */
  async measure({ source, flags }: RegExp, pumps: readonly Pump[], deadlineMs = DEADLINE_MS): Promise<Slow | null> {
    let last = pumps[0] as Pump;
    const worker = this.#worker;
    const slow = await new Promise<Slow | null>((resolve) => {
      const from = process.cpuUsage();
      const timer = setInterval(() => {
        const { user, system } = process.cpuUsage(from);
        if (user + system > deadlineMs * 1000) end({ pump: last, ratio: null });
      }, 100);
      const listen = (message: Message): void => {
        if ('pump' in message) last = message.pump;
        else end(message.slow);
      };
      const end = (result: Slow | null): void => {
        clearInterval(timer);
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
