/**
 * From a fresh clone to an answer: installs, builds, and sends a prompt to the built-in model.
 *
 *   npm start
 *   npm start -- "your prompt" [flags of `svc run`]
 *
 * The daemon uses a temporary home and any free port. At the end it is stopped and its home removed: nothing outside
 * the checkout is read, written or left behind.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from './steps/build.js';
import { addonVariables } from './steps/addon.js';
import { root } from './steps/root.js';
import { main, say } from './steps/run.js';

const DEFAULT_ARGUMENTS = ['--max-tokens', '64', 'Hello! Who are you, and what can you do?'];

await main(async () => {
  await build();
  const args = process.argv.slice(2);
  const home = await mkdtemp(join(tmpdir(), 'svc-start-'));
  // Ctrl-C reaches the whole process group: `svc run` ends, and this program must survive to stop the daemon.
  process.on('SIGINT', () => {});
  try {
    say('svc run');
    process.exitCode = await svc(home, ['run', ...(args.length === 0 ? DEFAULT_ARGUMENTS : args)], 'inherit');
  } finally {
    await svc(home, ['stop'], 'ignore');
    await rm(home, { recursive: true, force: true });
  }
  say('the daemon of this try is stopped and its home removed; your own: node bin/svc.cjs --help');
});

/** Resolves with the exit code. Without standard input, because svc would wait for one that stays open. */
function svc(home, args, output) {
  const env = {
    ...process.env,
    SVC_HOME: home,
    SVC_HTTP_ADDR: '127.0.0.1:0',
    SVC_GRPC_ADDR: '127.0.0.1:0',
    ...addonVariables,
  };
  const child = spawn(process.execPath, ['bin/svc.cjs', ...args], {
    cwd: root,
    env,
    stdio: ['ignore', output, output],
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve(code ?? (signal === 'SIGINT' ? 130 : 1)));
  });
}
