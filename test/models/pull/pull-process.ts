/** A pull in its own process, to be killed: `pull-process.ts DIR ENDPOINT NAME`. Prints progress to standard output. */
import { join } from 'node:path';
import { builtinModelPath } from '../../../src/models/store/builtin.ts';
import { Puller } from '../../../src/models/pull/puller.ts';
import { ModelStore } from '../../../src/models/store/store.ts';
import { parseReference } from '../../../src/models/pull/reference.ts';
import { full, NEVER, SMALL } from './pull-support.ts';

const [dir = '', endpoint = '', name = ''] = process.argv.slice(2);
const storeDir = join(dir, 'models');
const store = new ModelStore({ dir: storeDir, builtinPath: builtinModelPath() });
// The process is killed while the server stalls, so it must not time out by itself.
const limits = { ...SMALL, stallMs: 3_600_000 };
const puller = new Puller({ store, storeDir, dir: join(dir, 'downloads'), limits });
const settings = { endpoint, token: null, is_offline: false };
for await (const event of puller.pull(full(parseReference(name)), [], settings, NEVER))
  console.log(JSON.stringify(event));
await puller.close();
