/** Suites in which every test has a home of its own, and no daemon outlives its test. */
import { suite, type Test } from 'uvu';
import { spawnDaemon, type DaemonProcess, type DaemonProcessOptions } from './daemon.ts';
import { makeHome, type Home } from './home.ts';

export interface DaemonContext {
  home: Home;
  running: DaemonProcess[];
  /** Run at the end of the test, when its daemons are gone and its home is still there. */
  cleanups: (() => void)[];
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
    for (const cleanup of cleanups) cleanup();
    await home.remove();
  });
  return test;
}

/** Spawned in the home of the test, and ended with it. */
export function startIn({ home, running }: DaemonContext, options: DaemonProcessOptions = {}): DaemonProcess {
  const daemon = spawnDaemon(home, options);
  running.push(daemon);
  return daemon;
}
