/**
 * Scores the built-in model on the questions of models/nano/evaluation with our engine.
 *
 *   node --import tsx test/nano/evaluate-nano.ts [--development] [--wrong] [MODEL.gguf]
 *
 * --development  use the development questions, which authors of the corpus may look at
 * --wrong        also print every wrong answer
 * --totals       print no confused intents, which would show questions of the evaluation
 *
 * Prints scores, confused intents, and every command or flag that an answer invented. Exits with 1 if a threshold is
 * missed or anything was invented.
 */
import { parseArgs } from 'node:util';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { BARS, CONFIDENTLY_WRONG_BAR, evaluate, tally, type Scored } from './evaluate.ts';
import { PARTS } from './questions.ts';

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    development: { type: 'boolean', default: false },
    wrong: { type: 'boolean', default: false },
    totals: { type: 'boolean', default: false },
  },
});
const scored = await evaluate(positionals[0] ?? builtinModelPath(), values.development ? 'development' : 'evaluation');
process.exitCode = report(scored, values.wrong) ? 0 : 1;

function report(scored: readonly Scored[], showWrong: boolean): boolean {
  let missed = false;
  for (const part of PARTS) {
    const { right, confident, all } = tally(scored, part);
    const bar = BARS[part];
    missed ||= (bar !== undefined && right < bar * all) || (part === 'svc' && confident > CONFIDENTLY_WRONG_BAR * all);
    const demand = bar === undefined ? '' : ` (bar: ${(100 * bar).toFixed(0)} %)`;
    console.log(
      `${part}: ${String(right)} of ${String(all)} right, ${percent(right, all)}${demand}; ` +
        `confidently wrong ${String(confident)}, ${percent(confident, all)}`,
    );
  }
  const wrong = scored.filter(({ right }) => !right);
  const own = wrong.filter(({ question, intent }) => intent === null && question.part !== 'arithmetic').length;
  console.log(`answers that match no intent: ${String(own)}`);
  const invented = scored.flatMap((each) => each.invented);
  console.log(
    `invented commands and flags: ${String(invented.length)}${invented.length > 0 ? ` (${invented.join(', ')})` : ''}`,
  );
  if (values.totals) return !missed && invented.length === 0;
  const confusion = new Map<string, number>();
  for (const { question, intent, right } of scored) {
    if (right || question.part === 'arithmetic') continue;
    const pair = `${question.intents.join(',')} -> ${intent ?? 'none'}`;
    confusion.set(pair, (confusion.get(pair) ?? 0) + 1);
  }
  console.log('confused intents:');
  for (const [pair, count] of [...confusion].sort(([, a], [, b]) => b - a)) console.log(`  ${String(count)} ${pair}`);
  if (showWrong) {
    for (const { question, answer } of wrong) console.log(`\n> ${question.turns.join('\n> ')}\n${answer}`);
  }
  return !missed && invented.length === 0;
}

function percent(part: number, all: number): string {
  return `${((100 * part) / all).toFixed(1)} %`;
}
