/** Large blocks of an engine are in huge pages, where the system grants them to programs that ask. */
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { startEngine } from '../support/engine-pipe.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';

const LEAST_BYTES = 4 * 1024 * 1024;

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

/** Why it cannot be tested here. */
function obstacle(): string | undefined {
  const mode = /\[(\w+)\]/.exec(textOf('/sys/kernel/mm/transparent_hugepage/enabled') ?? '')?.[1];
  if (mode !== 'madvise') return `this system ${mode === 'always' ? 'always grants' : 'does not grant'} huge pages`;
  const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
  const [major = 0, minor = 0] = (header.glibcVersionRuntime ?? '').split('.').map(Number);
  if (major * 1000 + minor < 2035) return 'this C library does not ask for them';
  // An engine may not be read by other processes of the user.
  return process.getuid?.() === 0 ? undefined : 'only root may read the memory map of an engine';
}

/** Bytes of the process's memory for which huge pages were asked (`hg` in proc_pid_smaps(5)). */
function advisedBytes(pid: number): number {
  const mappings = (textOf(`/proc/${String(pid)}/smaps`) ?? '').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  const advised = mappings.filter((mapping) => /^VmFlags:.* hg\b/m.test(mapping));
  return advised.reduce((sum, mapping) => sum + Number(/^Size: +(\d+) kB$/m.exec(mapping)?.[1]) * 1024, 0);
}

const test = suite('huge pages');

unless(obstacle(), test)('an engine asks for them', async () => {
  const { pid, received, send, kill, ended } = await startEngine();
  try {
    const options = { context_length: 8192, threads: 1 };
    send({ type: 'load', model: 'tiny', path: modelPath('tiny-llama'), options, parentPid: process.pid });
    await waitFor('the load', () => received.find((each) => each.type === 'loaded'));
    assert.ok(advisedBytes(pid) >= LEAST_BYTES, `${String(advisedBytes(pid))} bytes`);
  } finally {
    kill();
    await ended;
  }
});

test.run();
