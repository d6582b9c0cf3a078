/**
 * The documentation lists every error, route, setting and environment variable, and the limits of model files. Its
 * prose is wrapped, and the figures that README.md repeats are those of the pages where they were measured.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { ConfigSchema } from '../../src/config/config.ts';
import { namedSettings } from '../../src/config/settings.ts';
import { ALIASES } from '../../src/daemon/http/paths.ts';
import { VARIABLES } from '../../src/process/environment.ts';
import { GGUF_LIMITS, MODEL_RANGES } from '../../src/models/gguf/gguf-limits.ts';
import { ERRORS } from '../../src/protocol/errors.ts';
import { CONTROL_ROUTES, HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { read, trackedFiles } from './source-files.ts';

/** Cells of all table rows in a Markdown file, without backquotes. */
function rowsOf(path: string): string[][] {
  const rows = read(path)
    .split('\n')
    .filter((line) => line.startsWith('|') && !/^\|[\s:|-]+\|$/.test(line));
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.replaceAll('`', '').trim()),
  );
}

test('docs/errors.md lists every error as the code defines it', () => {
  const documented = new Map(rowsOf('docs/errors.md').map(([code = '', ...rest]) => [code, rest]));
  for (const [code, facts] of Object.entries(ERRORS)) {
    const row = documented.get(code);
    assert.ok(row, `${code} is not in docs/errors.md`);
    const [http, grpc, exit, retry, meaning, mend] = row;
    assert.equal([http, grpc, exit], [facts.http, facts.grpc, facts.exit].map(String), code);
    assert.is(retry, facts.retryable ? 'yes' : 'no', code);
    assert.ok(meaning && mend, `${code} lacks its meaning or what to do`);
  }
});

test('docs/http.md names every route', () => {
  const documented = rowsOf('docs/http.md').map(([route]) => route);
  for (const path of [...Object.values(HTTP_ROUTES), ...Object.values(CONTROL_ROUTES)]) {
    assert.ok(
      documented.some((route) => route?.split(' ').includes(path)),
      `${path} is not in docs/http.md`,
    );
  }
});

test('no hint names a page of docs/, which is not installed', () => {
  for (const path of trackedFiles().filter((each) => /^src\/.*\.ts$/.test(each)))
    assert.not.match(read(path), /hint.*docs\/[\w-]+\.md|['`]see .*docs\/[\w-]+\.md/, path);
});

test('docs/http.md names every alias of a route', () => {
  for (const path of ALIASES.keys()) assert.ok(read('docs/http.md').includes(`\`${path}\``), path);
});

test('docs/configuration.md names every setting with its default', () => {
  const documented = new Map(rowsOf('docs/configuration.md').map(([name = '', value]) => [name, value]));
  const defaults = v.parse(ConfigSchema, {}) as Record<string, Record<string, unknown>>;
  for (const [section, entries] of Object.entries(settings())) {
    for (const key of entries) {
      const name = `${section}.${key}`;
      assert.ok(documented.has(name), `${name} is not in docs/configuration.md`);
      const value = defaults[section]?.[key];
      if (value !== undefined)
        assert.is(documented.get(name), typeof value === 'string' ? value : JSON.stringify(value), name);
    }
  }
});

test('docs/configuration.md names every setting under a user-chosen name', () => {
  const documented = rowsOf('docs/configuration.md').map(([name]) => name);
  assert.ok(namedSettings().length > 0);
  for (const name of namedSettings()) assert.ok(documented.includes(name), `${name} is not in docs/configuration.md`);
});

test('docs/configuration.md names every environment variable', () => {
  const text = read('docs/configuration.md');
  for (const name of Object.keys(VARIABLES))
    assert.ok(text.includes(`\`${name}\``), `${name} is not in docs/configuration.md`);
});

/** Keys of each section, from the config schema. */
function settings(): Record<string, string[]> {
  type Schema = {
    readonly pipe?: readonly Schema[];
    readonly wrapped?: Schema;
    readonly entries?: Record<string, Schema>;
  };
  const entriesOf = (schema: Schema): Record<string, Schema> => {
    const inner = schema.wrapped ?? schema.pipe?.find((item) => item.entries !== undefined);
    return schema.entries ?? (inner === undefined ? {} : entriesOf(inner));
  };
  const sections = Object.entries(entriesOf(ConfigSchema as Schema));
  assert.ok(sections.length > 0);
  return Object.fromEntries(sections.map(([name, schema]) => [name, Object.keys(entriesOf(schema))]));
}

test('docs/models.md states the limits of model files', () => {
  const rows = rowsOf('docs/models.md');
  const most = new Map(rows.map(([what = '', value]) => [what, value]));
  const limits: Record<Exclude<keyof typeof GGUF_LIMITS, 'textBytes'>, string> = {
    headerBytes: 'bytes of the header',
    entries: 'metadata entries',
    tensors: 'tensors',
    keyBytes: 'bytes of a key',
    tensorNameBytes: "bytes of a tensor's name",
    architectureBytes: "bytes of the architecture's name",
    dimensions: 'dimensions of a tensor',
    alignment: 'alignment, a power of two',
    parts: 'parts of a model',
    adapterRank: 'rank of an adapter',
    mergesPerToken: 'merges for each token',
    templateBytes: 'bytes of a chat template',
    templateDepth: 'levels of a chat template',
  };
  for (const [limit, what] of Object.entries(limits)) {
    assert.is(most.get(what), String(GGUF_LIMITS[limit as keyof typeof limits]), what);
  }
  for (const [key, range] of Object.entries(MODEL_RANGES)) {
    assert.equal(rows.find(([name]) => name === key)?.slice(1), [range.least, range.most].map(String), key);
  }
});

/** Programs write these pages. */
const UNWRAPPED = ['docs/platforms.md', 'docs/reliability.md'];

test('prose is wrapped at 120 columns', () => {
  const pages = trackedFiles().filter((path) => /^(README|CONTRIBUTING|docs\/.+)\.md$/.test(path));
  assert.ok(pages.length > 30);
  for (const page of pages.filter((path) => !UNWRAPPED.includes(path))) {
    const prose = read(page).replaceAll(/^```[^]*?^```/gm, '');
    const wide = prose
      .split('\n')
      .filter((line) => line.length > 120 && !/^\s*[|<#!]/.test(line) && line.trim().includes(' '));
    assert.equal(wide, [], page);
  }
});

test('README.md and docs/decisions.md repeat the figures of docs/benchmarks.md and docs/reliability.md', () => {
  const rows = rowsOf('docs/benchmarks.md');
  const against = (peer: string, scenario: string): readonly string[] => {
    const [, ...cells] = rows.find(([name = '', , other]) => name.includes(scenario) && other === peer) ?? [];
    return cells.map((cell) => cell.split(' ')[0]?.replace(/(\d)(\d{3})$/, '$1,$2') ?? '');
  };
  const repeats = (page: string, sentence: string): void =>
    assert.ok(read(page).replaceAll(/\s+/g, ' ').includes(sentence), `${page} does not say "${sentence}"`);

  const [all = '', , theirs = '', ratio = ''] = against('llama-server', '8 streams at once');
  repeats('README.md', `${all} tokens/s from svc and ${theirs} from llama-server`);
  repeats('docs/decisions.md', `${ratio} times as fast as in llama-server`);
  const [one = '', , theirOne = ''] = against('llama-server', 'one stream: decode');
  repeats('README.md', `One stream alone gets ${one} and ${theirOne}.`);
  const [first = '', , theirFirst = ''] = against('llama-server', 'a question of 12 words');
  repeats('README.md', `${first} ms from svc, and in ${theirFirst} ms from llama-server`);
  const [ofSchema = ''] = against('–', 'output by a JSON schema');
  repeats('docs/decisions.md', `decodes ${ofSchema} times as fast as free output`);
  const [, reached = '', targets = ''] = /^\*\*(\d+) of (\d+) bars reached/m.exec(read('docs/benchmarks.md')) ?? [];
  repeats('README.md', `has ${targets} targets, and svc reached ${reached}.`);
  const [, faults = ''] = /^(\d+) passed/m.exec(read('docs/reliability.md')) ?? [];
  repeats('README.md', `injects ${faults} faults`);
  repeats('README.md', `withstood all ${faults} `);
});

test.run();
