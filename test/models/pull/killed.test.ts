/** kill -9 during a pull: recorded parts are not fetched again, and the file is correct. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { readJournal } from '../../../src/models/pull/partial-file.ts';
import { waitFor } from '../../support/wait.ts';
import { KIB, lastOf, MIB, modelOf, pullSuite, SMALL } from './pull-support.ts';

const PROCESS = fileURLToPath(new URL('pull-process.ts', import.meta.url));
const test = pullSuite('killed');

test('a killed pull loses at most the parts in flight', async ({ hub, dir, pull }) => {
  const content = modelOf(6 * MIB);
  hub.add('acme/m', 'm-Q4_0.gguf', content);
  const PARTS = 8;
  let isHeld = false;
  hub.onBytes = async (request) => {
    if (request.number <= PARTS) return false;
    // The remaining parts stay half sent, so that the kill interrupts them.
    isHeld = true;
    const { res, from, to } = request;
    res.writeHead(206, {
      etag: hub.etag(content),
      'content-length': String(to - from),
      'content-range': `bytes ${from}-${to - 1}/${content.length}`,
    });
    await hub.write(res, content.subarray(from, from + 100 * KIB));
    return true;
  };
  const child = spawn(process.execPath, ['--import', 'tsx', PROCESS, dir, hub.endpoint, 'hf:acme/m'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await waitFor('parts that hang', () => isHeld);
  const journal = join(
    dir,
    'downloads',
    (await readdir(join(dir, 'downloads'))).find((name) => name.endsWith('.journal'))!,
  );
  const written = async (): Promise<number> => (await readJournal(journal))?.ranges.bytes ?? 0;
  await waitFor('the whole parts to be written down', async () => (await written()) >= PARTS * SMALL.partBytes);
  child.kill('SIGKILL');
  await once(child, 'exit');
  hub.reset();
  hub.onBytes = () => false;
  const events = await pull('hf:acme/m');
  const [resolved] = events;
  const present = resolved?.type === 'resolved' ? resolved.present_bytes : 0;
  assert.ok(present >= PARTS * SMALL.partBytes, `${present} bytes were kept`);
  assert.is(present + lastOf(events).fetched_bytes, content.length);
  assert.equal(await readFile(lastOf(events).model.path), content);
});

test.run();
