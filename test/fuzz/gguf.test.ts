/** Fuzzing of the GGUF reader: a short version of the campaign that `npm run fuzz` runs. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Mutator } from './gguf/mutate.ts';
import { FuzzRun } from './gguf/run.ts';
import { makeSeeds } from './gguf/seeds.ts';
import { parseGgufHeader } from '../../src/models/gguf/gguf-header.ts';
import { SvcError } from '../../src/protocol/errors.ts';

const EXECUTIONS = 50_000;
const SEED = 20_26;

const seeds = await makeSeeds();

test('valid seeds are accepted, and hostile seeds refused', () => {
  const valid = ['tiny-llama', 'tiny-qwen2', 'tiny-gemma', 'tiny-bert', 'tiny-llama-embed'];
  for (const name of [...valid, 'experts', 'mamba', 'part', 'projector', 'every type']) {
    const { bytes, fileBytes, isValid } = seeds.find((seed) => seed.name === name)!;
    assert.ok(isValid, name);
    assert.not.equal(parseGgufHeader(bytes, fileBytes, name), 'more', name);
    assert.ok(bytes.length < 8192, `${name} has ${bytes.length} bytes`);
  }
});

test(`${EXECUTIONS} damaged files are read or refused, without crash or hang`, () => {
  const run = new FuzzRun(new Mutator(seeds, SEED));
  run.run(0, EXECUTIONS);
  assert.equal(run.findings, []);
  const { accepted, refused, more } = run.tally;
  assert.is(accepted + refused + more, EXECUTIONS);
  assert.ok(accepted > EXECUTIONS / 20 && refused > EXECUTIONS / 4, JSON.stringify(run.tally));
});

test('an execution is reproducible from its seed and number', () => {
  const twice = [new Mutator(seeds, SEED), new Mutator(seeds, SEED)].map((mutator) => {
    mutator.make(3);
    const { bytes, fileBytes } = mutator.make(4711);
    return [Buffer.from(bytes), fileBytes];
  });
  assert.equal(twice[0], twice[1]);
  assert.not.equal(Buffer.from(new Mutator(seeds, SEED + 1).make(4711).bytes), twice[0]![0]);
});

test('every kind of reader fault is detected', () => {
  const wrongs: readonly [what: RegExp, parse: typeof parseGgufHeader][] = [
    [
      /RangeError/,
      () => {
        throw new RangeError('Invalid array length');
      },
    ],
    [
      /refuses with/,
      () => {
        throw new SvcError('MODEL_INVALID', 'the file is \u001b[2J');
      },
    ],
    [/more than the whole/, () => 'more'],
    [
      /outside of its place/,
      (bytes, fileBytes, name) => {
        const header = parseGgufHeader(bytes, fileBytes, name);
        if (header === 'more') return header;
        return { ...header, tensors: header.tensors.map((each) => ({ ...each, offset: each.offset + fileBytes })) };
      },
    ],
  ];
  for (const [what, parse] of wrongs) {
    const run = new FuzzRun(new Mutator(seeds, SEED), parse);
    run.run(0, 1000);
    assert.match(run.findings[0]?.what ?? '', what);
  }
});

test.run();
