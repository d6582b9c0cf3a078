/** For every server fault: the right file, or an error message and no file under the model name. */
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { runFault } from './fault-run.ts';
import { FAULTS, FILE, REPO } from './faults.ts';
import { pullSuite } from './pull-support.ts';

const test = pullSuite('faults');

for (const fault of FAULTS) {
  test(fault.name, async (context) => {
    const { error, fetchedTwice } = await runFault(fault, context);
    const { dir, hub, store } = context;
    assert.is(error?.code, fault.error, error?.stack);
    if (fault.says !== undefined) assert.match(error?.message ?? '', fault.says);
    assert.ok(fetchedTwice <= fault.twice, `${fetchedTwice} bytes came twice`);
    const models = (await store.list()).filter(({ builtin }) => !builtin);
    if (fault.error === undefined) {
      assert.is(models[0]!.state, 'installed');
      assert.equal(await readFile(models[0]!.path), hub.repositories.get(REPO)?.get(FILE)?.content);
    } else {
      assert.equal(models, []);
      const blobs = join(dir, 'models', 'blobs');
      assert.equal(existsSync(blobs) ? await readdir(blobs) : [], []);
    }
  });
}

test.run();
