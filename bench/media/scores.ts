/** Compares scores of our engine with those of llama-server built from the same source. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { ranked } from '../../src/protocol/collect.ts';
import { beside, MANY, timeOf, type Both } from '../compare/beside-server.ts';
import { makeInFullPrecision } from '../compare/full-precision.ts';

/** Relative to 1 + |score|: the batch shape changes the rounding. */
const MOST_DIFFERENCE = 0.005;
const QUERY = 'What runs under the old bridge?';
const DOCUMENTS = [
  'x',
  'The river runs under the old bridge.',
  'The bridge runs under the old river.',
  'def fibonacci(n: int) -> int:\n    """The n-th number."""\n    return',
  'Grüße aus Köln! 你好，世界。 Привет 👩‍👩‍👧‍👦 ',
  Array.from({ length: 40 }, (_, index) => `Line ${index}: the fox.`).join('\n'),
];

export interface Scores {
  readonly model: string;
  readonly documents: number;
  /** Relative to 1 + |score|. */
  readonly largestDifference: number;
  /** True if documents stand in another order only where their scores are about equal. */
  readonly isOrderEqual: boolean;
  /** True if both count the same tokens. */
  readonly areTokensEqual: boolean;
  readonly isAgreeing: boolean;
  /** Milliseconds for MANY short documents. */
  readonly ours: number;
  readonly theirs: number;
}

export async function compareScores(): Promise<Scores[]> {
  const all: Scores[] = [];
  const folder = await mkdtemp(join(tmpdir(), 'svc-scores-'));
  try {
    const models = ['tiny-rank', 'tiny-rank-qwen3'].map((name) => makeInFullPrecision(name, folder));
    await beside(await Promise.all(models), 1, { reranking: true }, async (both) => {
      all.push(await compare(both));
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return all;
}

async function compare({ model, engine, server }: Both): Promise<Scores> {
  const [ours, theirs] = [await engine.rerank(QUERY, DOCUMENTS), await server.rerank(QUERY, DOCUMENTS)];
  const largestDifference = Math.max(...ours.scores.map((score, at) => difference(score, theirs.scores[at] ?? NaN)));
  const expected = orderOf(theirs.scores);
  const isOrderEqual = orderOf(ours.scores).every((at, index) => {
    const other = expected[index] ?? NaN;
    return at === other || difference(theirs.scores[at] ?? NaN, theirs.scores[other] ?? NaN) < MOST_DIFFERENCE;
  });
  const areTokensEqual = ours.tokens === theirs.tokens;
  return {
    model: basename(model),
    documents: DOCUMENTS.length,
    largestDifference,
    isOrderEqual,
    areTokensEqual,
    isAgreeing: largestDifference < MOST_DIFFERENCE && isOrderEqual && areTokensEqual,
    ours: await timeOf(() => engine.rerank(QUERY, MANY)),
    theirs: await timeOf(() => server.rerank(QUERY, MANY)),
  };
}

function difference(a: number, b: number): number {
  return Math.abs(a - b) / (1 + Math.abs(b));
}

function orderOf(scores: readonly number[]): number[] {
  return ranked(scores).map(({ index }) => index);
}

export function scoreLines(all: readonly Scores[]): string[] {
  return [
    '### Scores of documents, beside llama-server',
    '',
    `The models have random weights in F32; differences are relative to 1 + |score|, and at most ${String(MOST_DIFFERENCE)} is rounding.`,
    '',
    `| model | documents | largest difference | order | tokens | ${String(MANY.length)} short documents: svc, llama-server |`,
    '|---|---|---|---|---|---|',
    ...all.map((each) =>
      [
        `| ${each.model}`,
        each.documents,
        each.largestDifference.toExponential(1),
        each.isOrderEqual ? 'the same' : '**another**',
        each.areTokensEqual ? 'the same' : '**others**',
        `${each.ours.toFixed(0)} ms, ${each.theirs.toFixed(0)} ms |`,
      ].join(' | '),
    ),
    '',
  ];
}
