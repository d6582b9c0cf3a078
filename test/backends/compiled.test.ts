/** What is kept of the schemas that were compiled for the last requests. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { toEngineRequest } from '../../src/backends/local/request.ts';
import { Compiled } from '../../src/backends/local/schema/compiled.ts';
import { SvcError } from '../../src/protocol/errors.ts';

/** Compiles names, and counts how often. */
class Counted {
  readonly #kept = new Compiled<string>();
  compilations = 0;

  of(name: string): string {
    return this.#kept.of({ name }, (source) => {
      this.compilations += 1;
      return source.name;
    });
  }
}

test('equal sources are compiled once, others by themselves', () => {
  const counted = new Counted();
  for (const name of ['a', 'b', 'a', 'b', 'a']) assert.is(counted.of(name), name);
  assert.is(counted.compilations, 2);
});

test('the eight used last are kept', () => {
  const counted = new Counted();
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'a']) counted.of(name);
  assert.is(counted.compilations, 8);
  counted.of('a ninth one');
  counted.of('a');
  assert.is(counted.compilations, 9);
  counted.of('b');
  assert.is(counted.compilations, 10);
});

test('large ones do not fill the memory; the last one is kept in any case', () => {
  const counted = new Counted();
  const [a, b] = ['a'.repeat(1_100_000), 'b'.repeat(1_100_000)];
  for (const name of [a, a, 'small', 'small']) counted.of(name);
  assert.is(counted.compilations, 2);
  for (const name of [a, b, b]) counted.of(name);
  assert.is(counted.compilations, 4, 'a and b');
});

test('an error is not kept', () => {
  const kept = new Compiled<string>();
  const refuse = (): string => {
    throw new Error('refused');
  };
  assert.throws(() => kept.of(1, refuse), 'refused');
  assert.is(
    kept.of(1, () => 'made'),
    'made',
  );
});

test('a schema that nests too deep to be written is refused as one that nests too deep', () => {
  let schema = {};
  for (let level = 0; level < 20_000; level++) schema = { type: 'array', items: schema };
  const format = { type: 'json_schema', schema } as const;
  try {
    toEngineRequest({ messages: [{ role: 'user', content: 'Hi' }], sampling: {}, stop: [], format });
    assert.unreachable();
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'INVALID_REQUEST');
    assert.is((error as SvcError).param, 'format.schema');
  }
});

test.run();
