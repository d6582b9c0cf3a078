/** Suites in which every test runs svc commands in its own SVC_HOME; a daemon left running is stopped. */
import { suite, type Test } from 'uvu';
import { makeHome, type Home } from './home.ts';
import { svc, type SvcResult } from './svc.ts';

export interface SvcContext {
  home: Home;
  run(...args: string[]): Promise<SvcResult>;
}

export function svcSuite(name: string): Test<SvcContext> {
  const test = suite<SvcContext>(name);
  test.before.each(async (context) => {
    context.home = await makeHome();
    context.run = (...args) => svc(args, { home: context.home });
  });
  test.after.each(async ({ home, run }) => {
    await run('stop', '--force');
    await home.remove();
  });
  return test;
}
