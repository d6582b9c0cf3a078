/** Model references, valid and hostile: accepted names are safe in URLs and never used in paths. */
import { join, posix, win32 } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { downloadPaths } from '../../../src/models/pull/partial-file.ts';
import { isFileName, parseOllamaReference, parseReference } from '../../../src/models/pull/reference.ts';
import { StorePaths } from '../../../src/models/store/store-paths.ts';
import { SvcError } from '../../../src/protocol/errors.ts';
import { rejection } from '../../support/errors.ts';

test('names are parsed into their meaning', () => {
  const hub = { kind: 'hub', repo: 'Qwen/Qwen3-4B-GGUF', revision: null, file: null, quantization: null };
  assert.equal(parseReference('hf:Qwen/Qwen3-4B-GGUF'), hub);
  assert.equal(parseReference('Qwen/Qwen3-4B-GGUF'), hub);
  assert.equal(parseReference('hf.co/Qwen/Qwen3-4B-GGUF:q8_0'), { ...hub, quantization: 'q8_0' });
  assert.equal(parseReference('hf:Qwen/Qwen3-4B-GGUF:a/b.gguf@refs/pr/7'), {
    ...hub,
    file: 'a/b.gguf',
    revision: 'refs/pr/7',
  });
  const ollama = { kind: 'ollama', host: null, namespace: 'library', name: 'qwen3', tag: 'latest' };
  assert.equal(parseReference('ollama:qwen3'), ollama);
  assert.equal(parseReference('ollama:me/qwen3:4b'), { ...ollama, namespace: 'me', tag: '4b' });
  assert.equal(parseReference('ollama:host.example:5000/me/qwen3'), {
    ...ollama,
    host: 'host.example:5000',
    namespace: 'me',
  });
  assert.equal(parseReference('qwen3-4b:Q8_0'), { kind: 'short', name: 'qwen3-4b', quantization: 'Q8_0' });
  assert.is(parseReference('https://example.com/m.gguf', 'AB'.repeat(32)).kind, 'url');
});

test('invalid names are refused', async () => {
  const bad = [
    '',
    ' ',
    'hf:',
    'hf:a',
    'hf:a/b/c',
    'hf:../b',
    'hf:a/..',
    'hf:a/b:../c.gguf',
    'hf:a/b@..',
    'hf:a/b@x y',
    'hf:a\\b/c',
  ];
  bad.push(
    'ollama:',
    'ollama:../x',
    'ollama:a/b/c/d',
    'ollama:a:b:c',
    'ollama:x@y',
    'a b',
    'CON\0',
    'x:y:z',
    'hf:a/b:%2e%2e',
    'x'.repeat(600),
  );
  for (const name of bad) await rejection(() => parseReference(name), 'INVALID_REQUEST');
  await rejection(() => parseReference('https://example.com/m.gguf'), 'INVALID_REQUEST', /SHA-256/);
  await rejection(() => parseReference('https://me:pw@example.com/m.gguf', 'a'.repeat(64)), 'INVALID_REQUEST');
  await rejection(() => parseReference('hf:a/b', 'a'.repeat(64)), 'INVALID_REQUEST', /only with a URL/);
});

const PIECES = [
  '..',
  '.',
  '/',
  '\\',
  ':',
  '\0',
  '\n',
  ' ',
  '%2e',
  '%2f',
  'a',
  'Z',
  '9',
  '-',
  '_',
  '@',
  'é',
  '漢',
  '\u202e',
  'CON',
  'C:',
  '~',
  '$(x)',
];
const MORE = [
  'hf:',
  'ollama:',
  'hf.co/',
  '.gguf',
  '-00001-of-00002',
  'sha256:',
  'a'.repeat(64),
  '\\\\host\\share',
  'file.gguf:stream',
  'nul ',
];
let state = 11;
const random = (below: number): number => {
  state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
  return (state >>> 8) % below;
};
const hostile = (): string =>
  Array.from({ length: 1 + random(9) }, () => [...PIECES, ...MORE][random(PIECES.length + MORE.length)]).join('');

test('the result for any name is harmless in a URL, on Linux and on Windows', () => {
  let accepted = 0;
  for (let round = 0; round < 50_000; round += 1) {
    const text = round % 3 === 0 ? `hf:a/b:${hostile()}` : round % 3 === 1 ? `ollama:${hostile()}` : hostile();
    for (const parse of [parseReference, parseOllamaReference]) {
      try {
        const found = parse(text);
        accepted += 1;
        const parts = Object.values(found).flatMap((part) => (typeof part === 'string' ? part.split('/') : []));
        for (const part of parts) {
          assert.ok(part !== '' && part !== '.' && part !== '..' && !/[\\\0\n?#]/.test(part), JSON.stringify(text));
        }
      } catch (error) {
        if (!(error instanceof SvcError)) throw error;
        assert.is(error.code, 'INVALID_REQUEST');
      }
    }
    const name = hostile();
    if (isFileName(name)) {
      for (const rules of [posix, win32]) {
        const root = rules === posix ? '/base/dir' : 'C:\\base\\dir';
        assert.ok(rules.resolve(root, name).startsWith(root + rules.sep), JSON.stringify(name));
      }
    }
  }
  assert.ok(accepted > 1000, `${accepted}`);
});

test('no digest leads to a path outside the store or the download folder', () => {
  const store = new StorePaths('/store');
  for (let round = 0; round < 20_000; round += 1) {
    const digest = round % 2 === 0 ? hostile() : `sha256:${hostile()}`;
    for (const make of [
      () => store.blob(digest),
      () => store.part(digest, 0, 2),
      () => store.parts(digest),
      () => downloadPaths('/store', digest).part,
    ]) {
      let path: string | undefined;
      try {
        path = make();
      } catch {
        continue;
      }
      assert.match(path, /^\/store\/((blobs|parts)\/)?sha256-[0-9a-f]{64}(\.part|\/model-00001-of-00002\.gguf)?$/);
    }
  }
  const right = `sha256:${'a'.repeat(64)}`;
  assert.is(store.blob(right), join('/store', 'blobs', `sha256-${'a'.repeat(64)}`));
});

test.run();
