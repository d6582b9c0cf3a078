/**
 * An engine process with a hostile addon. The addon is loaded, and starts a thread, before the sandbox is entered. On
 * SIGUSR2 it runs its attacks and writes one line per thread and attack to standard output.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import '../../../src/engine/main.ts';

interface Hostile {
  attack(home: string, daemonPid: number, tcpPort: number, harmlessOnly: number): string;
}

interface Target {
  readonly addon: string;
  readonly home: string;
  readonly daemonPid: number;
  readonly tcpPort: number;
}

const target = JSON.parse(process.env['SVC_TEST_TARGET'] ?? '') as Target;
const hostile = createRequire(import.meta.url)(target.addon) as Hostile;
// Makes sure that libuv's worker threads exist too.
await readFile(target.addon);

process.on('SIGUSR2', () => {
  void readFile(join(target.home, 'note.txt'))
    .then(
      () => 'none',
      (error: unknown) => String((error as NodeJS.ErrnoException).code),
    )
    .then((error) => {
      process.stdout.write(`pool read_note ${error}\n`);
      process.stdout.write(`${hostile.attack(target.home, target.daemonPid, target.tcpPort, 0)}end\n`);
    });
});
