import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { variable } from '../../src/process/environment.ts';
import { addonPath, loadAddon } from '../../src/engine/loader.ts';
import { probeEngine } from '../../src/engine/probe.ts';
import type { SvcError } from '../../src/protocol/errors.ts';
import { given } from '../../src/protocol/given.ts';

test('finds the addon and measures the CPU', async () => {
  const probe = await probeEngine({ measure: true });
  assert.is(probe.error, null);
  assert.is(probe.addon?.builtFor, `${process.platform}-${process.arch}`);
  assert.type(probe.cpuFeatures, 'string');
  const processor = probe.devices.find(({ type }) => type === 'cpu');
  assert.ok((processor?.gflops ?? 0) > 0);
  assert.is(processor?.error, null);
});

test('measures only on request', async () => {
  const { devices } = await probeEngine({ measure: false });
  assert.ok(devices.length > 0);
  assert.ok(devices.every(({ gflops }) => gflops === null));
});

/** Runs a probe whose child process executes this script. */
async function probeOf(script: string, timeoutMs?: number) {
  const directory = await mkdtemp(join(tmpdir(), 'svc-probe-'));
  const entry = join(directory, 'entry.mjs');
  await writeFile(
    entry,
    `import { writeSync } from 'node:fs';
     const tell = (next, devices = []) => {
       const json = Buffer.from(JSON.stringify({ type: 'probed', facts: { addon: null, devices, cpuFeatures: 'CPU', log: [], error: null }, next }));
       const header = Buffer.alloc(4);
       header.writeUInt32LE(json.length, 0);
       writeSync(3, Buffer.concat([header, json]));
     };
     ${script}`,
  );
  try {
    return await probeEngine({ measure: true, entry, ...given({ timeoutMs }) });
  } finally {
    await rm(directory, { recursive: true });
  }
}

test('a driver that crashes the child is named, together with the results before it', async () => {
  const probe = await probeOf(`tell('running a kernel on Vulkan0'); process.kill(process.pid, 'SIGSEGV');`);
  assert.is(probe.error?.code, 'ENGINE_CRASHED');
  assert.is(probe.error?.message, 'the engine process was ended by SIGSEGV while running a kernel on Vulkan0');
  assert.is(probe.cpuFeatures, 'CPU');
});

test('an abort is told with its reason, the last line on stderr', async () => {
  const probe = await probeOf(
    `tell('running a kernel on CUDA0'); process.stderr.write('starting\\nno \\u001b[1mimage\\n', () => process.kill(process.pid, 'SIGABRT'));`,
  );
  assert.is(
    probe.error?.message,
    'the engine process was ended by SIGABRT (no  [1mimage) while running a kernel on CUDA0',
  );
});

test('a driver that hangs leads to a result too', async () => {
  // The child starts within that time, too: on a busy machine Node alone needs seconds, so it grows until it is enough.
  for (let timeoutMs = 1500; ; timeoutMs *= 4) {
    const probe = await probeOf(`tell('looking for compute devices'); setInterval(() => {}, 1000);`, timeoutMs);
    const noAnswer = `the engine process gave no answer for ${String(timeoutMs / 1000)} s while`;
    if (probe.error?.message === `${noAnswer} starting` && timeoutMs < 60_000) continue;
    assert.is(probe.error?.message, `${noAnswer} looking for compute devices`);
    return;
  }
});

test('a child that hangs after its last output does not matter', async () => {
  const began = performance.now();
  const timeoutMs = 240_000;
  const probe = await probeOf(`tell(null); setInterval(() => {}, 1000);`, timeoutMs);
  assert.is(probe.error, null);
  assert.ok(performance.now() - began < timeoutMs, 'not when its time is over');
});

test('garbage from the child leads to a result too', async () => {
  const probe = await probeOf(`writeSync(3, 'this is no frame'); setInterval(() => {}, 1000);`);
  assert.is(probe.error?.message, 'the engine process sent invalid data while starting');
});

test('without an addon, the error has the platform, the path tried and a hint', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-addon-'));
  try {
    const broken = join(directory, 'svc.node');
    await writeFile(broken, 'this is no shared library');
    const errorOf = (path: string): SvcError => {
      try {
        loadAddon(path);
      } catch (thrown) {
        return thrown as SvcError;
      }
      throw new Error('it was loaded');
    };
    const error = errorOf('/nowhere/svc.node');
    assert.is(error.code, 'ENGINE_UNAVAILABLE');
    assert.ok(error.message.includes(`${process.platform}-${process.arch}`));
    assert.ok(error.message.includes('/nowhere/svc.node: not there'));
    assert.match(error.hint as string, /npm run build/);
    assert.ok(errorOf(broken).message.includes(`${broken}: `));
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('an override replaces the path of the build', () => {
  assert.is(addonPath('/here/svc.node'), '/here/svc.node');
  if (variable('SVC_ADDON') === undefined) assert.match(addonPath(), /build.addon.bin.svc\.node$/);
});

test.run();
