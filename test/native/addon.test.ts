/** Build information of the addon, and the devices that it finds. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Addon } from '../../src/engine/addon.ts';
import { addonPath } from '../../src/engine/loader.ts';
import { rejection } from '../support/errors.ts';
import { openAddon } from '../support/native-engine.ts';

const readJson = (path: string): unknown => JSON.parse(readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8'));

test('before setErrorClass an error is a plain Error with a code', () => {
  const addon = createRequire(import.meta.url)(addonPath()) as Addon;
  try {
    addon.loadBackends(1 as never);
    assert.unreachable();
  } catch (error) {
    assert.is((error as Error).constructor, Error);
    assert.is((error as { code?: unknown }).code, 'INVALID_REQUEST');
    assert.is((error as Error).message, 'directory must be a string');
  }
});

test('reports what it was built from', () => {
  const { version } = readJson('package.json') as { version: string };
  const { tag } = readJson('node_modules/node-llama-cpp/llama/llama.cpp.info.json') as { tag: string };
  const { info } = openAddon();
  assert.is(info.version, version);
  assert.is(info.llamaCpp, tag);
  assert.is(info.builtFor, `${process.platform}-${process.arch}`);
  assert.match(info.llama, /^(prebuilt|source)$/);
  assert.ok(Object.isFrozen(info));
});

test('lists a CPU with its memory and features', async () => {
  const addon = openAddon();
  const cpu = (await addon.devices()).find(({ type }) => type === 'cpu');
  assert.ok(cpu !== undefined && cpu.name.length > 0 && cpu.description.length > 0);
  assert.ok(cpu.memory_total_bytes === null || cpu.memory_total_bytes > 2 ** 26);
  assert.is(cpu.memory_free_bytes, null, 'ggml calls all of it free');
  assert.match(addon.cpuFeatures(), /\w/);
});

test('runs a kernel on the CPU, off the JavaScript thread', async () => {
  const addon = openAddon();
  const devices = await addon.devices();
  let ticks = 0;
  const ticking = setInterval(() => ticks++, 1);
  const gflops = await addon.measureDevice(devices.findIndex(({ type }) => type === 'cpu'));
  clearInterval(ticking);
  assert.ok(gflops > 0.1 && gflops < 1e6, `${String(gflops)} GFLOP/s`);
  assert.ok(ticks > 0);
});

test('rejects an unknown device and a folder without backends', async () => {
  const addon = openAddon();
  await rejection(() => addon.measureDevice(99), 'INVALID_REQUEST');
  for (const index of [-1, 0.5, NaN, '0', undefined, 2 ** 32]) {
    await rejection(() => addon.measureDevice(index as number), 'INVALID_REQUEST', /^index must be an integer/);
  }
  addon.loadBackends(import.meta.dirname); // the loaded CPU backend stays
  assert.ok((await addon.devices()).length > 0);
});

test.run();
