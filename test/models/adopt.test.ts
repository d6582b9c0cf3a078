/** How downloaded files get into a store on another disk. */
import { mkdtempSync, rmSync, statSync, type Stats } from 'node:fs';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { adopt } from '../../src/models/store/adopt.ts';
import type { FetchedFile, FetchedModel } from '../../src/models/store/adopted.ts';
import { digestOf } from '../../src/models/store/digest.ts';
import { RegistryFile } from '../../src/models/store/registry.ts';
import { StorePaths } from '../../src/models/store/store-paths.ts';
import { rejection } from '../support/errors.ts';
import { projectorPath } from '../support/media-files.ts';
import { unless } from '../support/skip.ts';
import { gguf } from './raw-gguf.ts';

const MEMORY_DISK = '/dev/shm';

const test = suite<{ cache: string; paths: StorePaths }>('adopt');
test.before.each((context) => {
  context.cache = mkdtempSync(join(tmpdir(), 'svc-adopt-'));
  context.paths = new StorePaths(mkdtempSync(join(isOtherDisk() ? MEMORY_DISK : tmpdir(), 'svc-adopt-')));
});
test.after.each(({ cache, paths }) => {
  for (const dir of [cache, paths.dir]) rmSync(dir, { recursive: true });
});

const acrossDisks = unless(isOtherDisk() ? undefined : `no second disk at ${MEMORY_DISK}`, test);

function isOtherDisk(): boolean {
  const disk = statSync(MEMORY_DISK, { throwIfNoEntry: false });
  return disk !== undefined && disk.dev !== statSync(tmpdir()).dev;
}

async function fetched(cache: string): Promise<FetchedModel> {
  const file = async (name: string, bytes: Uint8Array): Promise<FetchedFile> => {
    const path = join(cache, name);
    await writeFile(path, bytes);
    return { digest: await digestOf(path), sizeBytes: bytes.length, path };
  };
  return {
    id: 'mine',
    isIdFixed: true,
    replaces: () => false,
    aliases: [],
    source: 'hf:acme/mine',
    license: null,
    weights: [await file('weights.part', gguf())],
    projector: await file('projector.part', await readFile(projectorPath('clip'))),
  };
}

acrossDisks('files are copied to the disk of the store before the registry is locked', async ({ cache, paths }) => {
  const copied: Stats[] = [];
  const registry = new RegistryFile(paths.dir);
  const update = registry.update.bind(registry);
  registry.update = async (change) =>
    await update(async (state) => {
      for (const name of await readdir(paths.blobs)) copied.push(await stat(join(paths.blobs, name)));
      return await change(state);
    });
  const model = await fetched(cache);
  await adopt(model, { file: registry, paths, reserved: [] });
  const stored: Stats[] = [];
  for (const { digest, path } of [...model.weights, model.projector!]) {
    assert.equal(await readFile(paths.blob(digest)), await readFile(path!));
    stored.push(await stat(paths.blob(digest)));
  }
  const inodes = (files: readonly Stats[]): number[] => files.map(({ ino }) => ino).sort();
  assert.equal(inodes(copied), inodes(stored), 'under the lock they only get their names');
  assert.is((await readdir(paths.blobs)).length, stored.length);
});

acrossDisks(
  'a model that is refused at the end leaves no copy behind, and keeps its download',
  async ({ cache, paths }) => {
    const registry = new RegistryFile(paths.dir);
    const model = await fetched(cache);
    await adopt(model, { file: registry, paths, reserved: [] });
    const [before, more] = [await readdir(paths.blobs), await fetched(cache)];
    await rejection(
      () => adopt(more, { file: registry, paths, reserved: [] }),
      'INVALID_REQUEST',
      /a model with this name exists/,
    );
    assert.equal(await readdir(paths.blobs), before);
    assert.equal((await readdir(cache)).sort(), ['projector.part', 'weights.part']);
  },
);

test.run();
