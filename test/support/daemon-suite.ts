/** Suites in which every test gets its own SVC_HOME, and no daemon outlives its test. */
import { suite, type Test } from 'uvu';
import { spawnDaemon, type DaemonProcess, type DaemonProcessOptions } from './daemon.ts';
import { makeHome, type Home } from './home.ts';

export interface DaemonContext {
  home: Home;
  running: DaemonProcess[];
  /** Run at the end of the test, after its daemons have exited and before its home is removed. */
  cleanups: (() => void | Promise<void>)[];
}

export function daemonSuite<Context extends DaemonContext = DaemonContext>(name: string): Test<Context> {
  const test = suite<Context>(name);
  test.before.each(async (context) => {
    context.home = await makeHome();
    context.running = [];
    context.cleanups = [];
  });
  test.after.each(async ({ home, running, cleanups }) => {
    for (const daemon of running) {
      daemon.kill('SIGKILL');
      await daemon.exit;
    }
    for (const cleanup of cleanups) await cleanup();
    await home.remove();
  });
  return test;
}

/** Spawns a daemon in the home of the test; it is killed when the test ends. */
export function startIn({ home, running }: DaemonContext, options: DaemonProcessOptions = {}): DaemonProcess {
  const daemon = spawnDaemon(home, options);
  running.push(daemon);
  return daemon;
}
