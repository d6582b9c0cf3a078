/**
 * Generates the table in docs/providers.md of the features that svc supports with each provider API, from the
 * declarations in the tests (test/backends/cloud/features.ts).
 *
 *   node --import tsx test/backends/cloud/feature-table.ts      writes the table
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import type { Api } from '../../../src/backends/cloud/provider.ts';
import { FEATURES, type Feature } from './features.ts';

const ROOT = join(import.meta.dirname, '../../..');
const TESTS = 'test/backends/cloud';
const PAGE = join(ROOT, 'docs/providers.md');
const BEGIN = '<!-- Made by test/backends/cloud/feature-table.ts: -->\n';
const END = '<!-- until here -->\n';

/** Columns of the table. */
const APIS: Readonly<Record<Api, string>> = {
  chat_completions: 'Chat Completions',
  responses: 'Responses',
  messages: 'Messages',
  gemini: 'Gemini',
};

export type Shown = 'yes' | 'refused';
export type Declared = Readonly<Record<Api, ReadonlyMap<Feature, Shown>>>;

const WORDS: Readonly<Record<string, Shown>> = { feature: 'yes', refused: 'refused' };

/** Declarations in the tests. Throws if one is not a literal or contradicts another. */
export function declared(): Declared {
  const all: Record<Api, Map<Feature, Shown>> = {
    chat_completions: new Map(),
    responses: new Map(),
    messages: new Map(),
    gemini: new Map(),
  };
  for (const file of readdirSync(join(ROOT, TESTS)).filter((name) => name.endsWith('.test.ts'))) {
    const calls = callsIn(join(ROOT, TESTS, file));
    const apis = calls.filter(({ name }) => name === 'featuresOf').map(({ first }) => first as Api);
    const [api] = apis;
    // A file without featuresOf has unrelated functions of these names.
    if (api === undefined) continue;
    if (apis.length > 1) throw new Error(`${file} declares features of more than one API`);
    for (const { name, first } of calls) {
      if (first === null) throw new Error(`${file}: the feature name in ${name}() must be a string literal`);
      const shown = WORDS[name];
      if (shown === undefined) continue;
      const feature = first as Feature;
      if ((all[api].get(feature) ?? shown) !== shown)
        throw new Error(`${file}: ${feature} is declared as both supported and refused`);
      all[api].set(feature, shown);
    }
  }
  return all;
}

interface Call {
  readonly name: string;
  /** First argument; null if it is not a literal. */
  readonly first: string | null;
}

/** Calls of the functions of features.ts; the type checker validates their first arguments. */
function callsIn(path: string): Call[] {
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true);
  const calls: Call[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) {
      const name = node.expression.text;
      if (name === 'featuresOf' || Object.hasOwn(WORDS, name)) {
        const [first] = node.arguments;
        calls.push({ name, first: first !== undefined && ts.isStringLiteral(first) ? first.text : null });
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return calls;
}

export function table(all: Declared): string {
  const apis = Object.keys(APIS) as Api[];
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;
  return [
    row(['', ...Object.values(APIS)]),
    row(['---', ...apis.map(() => '---')]),
    ...FEATURES.map((feature) => row([feature, ...apis.map((api) => all[api].get(feature) ?? '')])),
  ].join('');
}

/** Returns the page, split into the text before the table, the table, and the text after it. */
export function page(): { readonly before: string; readonly table: string; readonly after: string } {
  const text = readFileSync(PAGE, 'utf8');
  const begin = text.indexOf(BEGIN);
  const end = text.indexOf(END);
  if (begin < 0 || end < begin) throw new Error('docs/providers.md lacks the markers of the table');
  const from = begin + BEGIN.length;
  return { before: text.slice(0, from), table: text.slice(from, end), after: text.slice(end) };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { before, after } = page();
  writeFileSync(PAGE, before + table(declared()) + after);
}
