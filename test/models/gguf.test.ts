/** Model files on disk: the description of valid ones, and the refusal of everything else. */
import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readGgufFileInfo } from 'node-llama-cpp';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import {
  checkProjector,
  inspectGguf,
  inspectParts,
  partsOf,
  readGgufHeader,
  type GgufSummary,
} from '../../src/models/gguf/gguf.ts';
import { VALUE_TYPE } from '../../src/models/gguf/ggml-types.ts';
import { rejection } from '../support/errors.ts';
import {
  arrayEntry,
  entry,
  gguf,
  LLAMA,
  numberEntry,
  partEntries,
  string,
  tensor,
  textEntry,
  u16,
  u32,
} from './raw-gguf.ts';

const testModel = (name: string): string => fileURLToPath(new URL(`../../build/models/${name}.gguf`, import.meta.url));

const test = suite<{ dir: string; write(bytes: Uint8Array): Promise<string> }>('gguf');

test.before.each(async (context) => {
  context.dir = await mkdtemp(join(tmpdir(), 'svc-gguf-'));
  context.write = async (bytes) => {
    const path = join(context.dir, 'model.gguf');
    await writeFile(path, bytes);
    return path;
  };
});
test.after.each(async ({ dir }) => {
  await chmod(dir, 0o700);
  await rm(dir, { recursive: true });
});

test('a model file is described', async () => {
  const { modified_at_ms, size_bytes, ...summary } = await inspectGguf(testModel('tiny-qwen2'));
  assert.equal(summary, {
    architecture: 'qwen2',
    // 151936 rows of 64, two layers of 49408, and the final norm.
    parameters: 9_822_784,
    quantization: 'Q4_0',
    context_length: 8192,
    license: 'MIT',
    capabilities: ['chat', 'completion'],
  });
  assert.ok(size_bytes > 10_000_000 && modified_at_ms > 0);
});

test('node-llama-cpp reads the same values from the same files', async () => {
  for (const path of [builtinModelPath(), ...['tiny-llama', 'tiny-qwen2', 'tiny-gemma'].map(testModel)]) {
    const ours = await readGgufHeader(path);
    const theirs = await readGgufFileInfo(path, { logWarnings: false });
    assert.is(ours.version, theirs.version);
    for (const [key, { value }] of ours.metadata) {
      const expected = key.split('.').reduce((node: any, part) => node?.[part], theirs.metadata);
      if (typeof value === 'object') assert.is(value.count, expected.length, key);
      else assert.is(value, expected, key);
    }
    assert.equal(
      ours.tensors.map(({ name, shape, offset, bytes }) => ({ name, shape, offset, bytes })),
      theirs.fullTensorInfo!.map(({ name, dimensions, fileOffset }, index) => ({
        name,
        shape: dimensions.map(Number),
        offset: Number(fileOffset),
        bytes: ours.tensors[index]!.bytes,
      })),
    );
    assert.is(
      (await inspectGguf(path)).parameters,
      theirs.tensorInfo!.reduce((sum, { dimensions }) => sum + dimensions.map(Number).reduce((a, b) => a * b, 1), 0),
    );
  }
});

test('without a stated type, the type of most bytes counts', async ({ write }) => {
  const tensors = [
    tensor({ name: 'a', shape: [32, 64], type: 12 - 4 }),
    tensor({ name: 'b', shape: [64], offset: 2176 }),
  ];
  const path = await write(gguf({ tensors, dataBytes: 2176 + 256 }));
  assert.is((await inspectGguf(path)).quantization, 'Q8_0');
});

test('the capabilities of a model follow from its training', async ({ write }) => {
  const can = async (...entries: Buffer[]): Promise<readonly string[]> =>
    (await inspectGguf(await write(gguf({ entries: [LLAMA, ...entries] })))).capabilities;
  assert.equal(await can(), ['completion']);
  assert.equal(await can(textEntry('tokenizer.chat_template', '{{ messages }}')), ['chat', 'completion']);
  assert.equal(await can(textEntry('tokenizer.chat_template', '{% if tools %}')), ['chat', 'completion']);
  for (const pooling of [1, 2, 3]) assert.equal(await can(numberEntry('llama.pooling_type', pooling)), ['embedding']);
  assert.equal(await can(numberEntry('llama.pooling_type', 4)), ['rerank']);
  const encoder = Buffer.concat([string('llama.attention.causal'), u32(VALUE_TYPE.bool), Buffer.of(0)]);
  assert.equal(await can(encoder), []);
  assert.equal(await can(encoder, numberEntry('llama.pooling_type', 2)), ['embedding']);
});

test('a header longer than the first read is read completely', async ({ write }) => {
  const words = arrayEntry('tokenizer.ggml.tokens', 8, 100_000, Buffer.concat(Array(100_000).fill(string('word'))));
  const { metadata } = await readGgufHeader(await write(gguf({ entries: [LLAMA, words] })));
  assert.is((metadata.get('tokenizer.ggml.tokens')!.value as { count: number }).count, 100_000);
});

/** Three parts as llama-gguf-split writes them: only the first has metadata, and it may have no weights. */
function threeParts(changed: Readonly<Record<number, Buffer>> = {}): Buffer[] {
  return [
    gguf({ entries: [LLAMA, ...partEntries(0, 3, 2)], tensors: [], dataBytes: 0 }),
    gguf({ entries: partEntries(1, 3, 2), tensors: [tensor({ name: 'a', shape: [32, 1] })] }),
    gguf({ entries: partEntries(2, 3, 2), tensors: [tensor({ name: 'b', shape: [16] })], dataBytes: 64 }),
  ].map((part, index) => changed[index] ?? part);
}

test('a split model is described by all of its parts, and each part is read', async ({ dir }) => {
  const place = (index: number): string => join(dir, `large-0000${index + 1}-of-00003.gguf`);
  const inspect = async (parts: readonly Buffer[]): Promise<unknown> => {
    for (const [index, part] of parts.entries()) await writeFile(place(index), part);
    return await inspectGguf(place(0));
  };
  const parts = threeParts();
  const { architecture, parameters, size_bytes } = await inspectParts(
    await Promise.all(
      parts.map(async (part, index) => {
        await writeFile(join(dir, `${index}.part`), part);
        return join(dir, `${index}.part`);
      }),
    ),
  );
  assert.equal([architecture, parameters], ['llama', 48]);
  assert.is(
    size_bytes,
    parts.reduce((sum, { length }) => sum + length, 0),
  );
  assert.is(((await inspect(parts)) as GgufSummary).parameters, 48);
  const second = (entries: readonly Buffer[], name = 'a'): Promise<unknown> =>
    inspect(threeParts({ 1: gguf({ entries, tensors: [tensor({ name })] }) }));
  await rejection(() => second(partEntries(2, 3, 2)), 'MODEL_INVALID', /00002-of-\S+ claims to be part 3 of 3, but/);
  await rejection(() => second(partEntries(1, 2, 2)), 'MODEL_INVALID', /part 2 of 2, but is number 2 of 3/);
  await rejection(
    () => second(partEntries(1, 3, 3)),
    'MODEL_INVALID',
    /to a model of 3 tensors, but all parts together have 2/,
  );
  await rejection(() => second(partEntries(1, 3, 2), 'b'), 'MODEL_INVALID', /another part has too: "b"/);
  await rejection(() => inspect(threeParts({ 2: Buffer.from('GGUFjunk') })), 'MODEL_INVALID', /00003-of-/);
  await inspect(parts);
  const { hint } = await rejection(() => inspectGguf(place(1)), 'MODEL_INVALID', /is one of the 3 parts of a model/);
  assert.match(hint ?? '', /…-00001-of-00003\.gguf/);
  await rm(place(2));
  await rejection(() => inspectGguf(place(0)), 'MODEL_NOT_FOUND', /large-00003-of-00003\.gguf/);
});

test('a model merged from parts counts as one file', async ({ write }) => {
  const joined = entry('split.count', VALUE_TYPE.uint16, u16(0));
  const path = await write(gguf({ entries: [LLAMA, joined] }));
  assert.is(partsOf(await readGgufHeader(path)), 1);
  assert.equal(await inspectGguf(path), await inspectParts([path]));
});

test('a projector is distinguished from a model', async ({ write }) => {
  const model = await write(gguf());
  await rejection(() => checkProjector(model), 'MODEL_INVALID', /is not a projector/);
  const projector = await write(gguf({ entries: [textEntry('general.architecture', 'clip')] }));
  await checkProjector(projector);
  await rejection(() => inspectGguf(projector), 'MODEL_INVALID', /is a projector, not a model/);
});

test('the description inside a model is reduced to one line', async ({ write }) => {
  const long = await write(gguf({ entries: [LLAMA, textEntry('general.license', `a\n\u001b[2J${'b'.repeat(1000)}`)] }));
  assert.is((await inspectGguf(long)).license, `a  [2J${'b'.repeat(250)}`);
});

test('a truncated file is refused with both sizes', async ({ dir }) => {
  const path = join(dir, 'short.gguf');
  execFileSync('cp', [testModel('tiny-llama'), path]);
  await truncate(path, 3_000_000);
  const { message, hint } = await rejection(
    () => inspectGguf(path),
    'MODEL_INVALID',
    /cut short: its tensors need 54\d+ bytes and the file has 3000000$/,
  );
  assert.match(message, path);
  assert.match(hint ?? '', /fetch the file again/);
});

test('directories, FIFOs and other non-files are refused without blocking', async ({ dir, write }) => {
  const fifo = join(dir, 'pipe.gguf');
  execFileSync('mkfifo', [fifo]);
  await rejection(() => inspectGguf(fifo), 'MODEL_INVALID', /not a regular file/);
  await rejection(() => inspectGguf('/dev/zero'), 'MODEL_INVALID', /not a regular file/);
  await rejection(() => inspectGguf(dir), 'MODEL_INVALID', /is a directory/);
  await rejection(() => inspectGguf(join(dir, 'none.gguf')), 'MODEL_NOT_FOUND', /there is no file/);
  await rejection(() => inspectGguf(join(dir, 'a\0b')), 'MODEL_NOT_FOUND', /there is no file/);
  await rejection(async () => inspectGguf(await write(Buffer.from('plain text'))), 'MODEL_INVALID', /not a GGUF file/);
  await rejection(async () => inspectGguf(await write(Buffer.of())), 'MODEL_INVALID', /is empty/);
  await rejection(async () => inspectGguf(await write(gguf({ entries: [] }))), 'MODEL_INVALID', /no architecture/);
  await rejection(async () => inspectGguf(await write(gguf({ tensors: [] }))), 'MODEL_INVALID', /no weights/);
});

test('a file without read permission is refused as such', async ({ dir, write }) => {
  const path = await write(gguf());
  await chmod(path, 0o000);
  await chmod(dir, 0o755);
  const isRoot = process.geteuid?.() === 0;
  const NOBODY = 65_534;
  if (isRoot) process.seteuid?.(NOBODY);
  try {
    await rejection(() => inspectGguf(path), 'MODEL_INVALID', /permission denied/);
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
});

test('a symbolic link to a model works', async ({ dir, write }) => {
  const link = join(dir, 'link.gguf');
  await symlink(await write(gguf()), link);
  assert.is((await inspectGguf(link)).architecture, 'llama');
});

test.run();
