/** The provider catalogue file and the providers made from it. */
import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { catalogue, CatalogueSchema, KINDS } from '../../src/config/catalogue.ts';
import { problemOfUrl } from '../../src/config/provider-settings.ts';

const file = JSON.parse(readFileSync(new URL('../../providers/catalogue.json', import.meta.url), 'utf8')) as unknown;
const { as_of, providers } = v.parse(CatalogueSchema, file);
const hosted = providers.filter(({ self_hosted }) => !self_hosted);

const twice = (values: readonly string[]): string[] => values.filter((value, at) => values.indexOf(value) !== at);

test('it has at least 25 cloud providers, some of each kind, and the common local servers', () => {
  assert.ok(hosted.length >= 25, String(hosted.length));
  for (const kind of KINDS) assert.ok(hosted.some((entry) => entry.kind === kind));
  const own = providers.filter(({ self_hosted }) => self_hosted).map(({ name }) => name);
  assert.equal(own, ['ollama', 'llama-server', 'vllm', 'sglang', 'lmstudio']);
  // Another account of such a kind takes its endpoint from the entry of that name.
  for (const kind of ['openai', 'anthropic', 'gemini'] as const) assert.is(catalogue().get(kind)?.kind, kind);
});

test('names, titles and addresses are unique', () => {
  assert.equal(twice(providers.map(({ name }) => name)), []);
  assert.equal(twice(providers.map(({ title }) => title)), []);
  assert.equal(
    twice(providers.flatMap(({ base_url, also_at }) => [...(base_url === null ? [] : [base_url]), ...also_at])),
    [],
  );
  assert.equal(twice(providers.flatMap(({ key_variables }) => key_variables)), []);
});

test('cloud addresses use https, all others are on this machine, and none ends with a slash', () => {
  for (const { name, base_url, base_url_form, also_at, self_hosted } of providers) {
    assert.ok(base_url !== null || base_url_form !== undefined, `${name} is nowhere`);
    const urls = [base_url, base_url_form, ...also_at].filter((url) => typeof url === 'string');
    for (const url of urls) {
      assert.is(problemOfUrl(url), undefined, url);
      assert.match(url, self_hosted ? /^http:\/\/127\.0\.0\.1:\d+\// : /^https:\/\//);
    }
  }
});

test('cloud providers need a key, and extra headers in the file are not keys', () => {
  for (const { name, key_variables, quirks } of hosted) {
    assert.ok(key_variables.length > 0, name);
    for (const header of Object.keys(quirks.headers ?? {})) assert.not.match(header, /auth|key|token|cookie/i);
  }
});

test('each entry has the date when it was checked; none is later than the date of the file', () => {
  for (const entry of providers) {
    assert.ok(Number.isFinite(Date.parse(entry.as_of)), entry.name);
    assert.ok(entry.as_of <= as_of, entry.name);
  }
});

test('a file that does not match the schema is refused', () => {
  const [first] = providers;
  for (const wrong of [{ name: 'local' }, { kind: 'other' }, { base_url: 'api' }, { as_of: 'today' }, { more: 1 }]) {
    assert.is(v.safeParse(CatalogueSchema, { as_of, providers: [{ ...first, ...wrong }] }).success, false);
  }
});

test.run();
