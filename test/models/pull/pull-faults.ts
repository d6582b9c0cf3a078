/** Generates docs/pull-faults.md: runs each fault of test/models/pull/faults.ts and records its outcome. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { builtinModelPath } from '../../../src/models/store/builtin.ts';
import { parseReference } from '../../../src/models/pull/reference.ts';
import { ModelStore } from '../../../src/models/store/store.ts';
import { FakeHub } from './fake-hub.ts';
import { runFault } from './fault-run.ts';
import { CONTENT, FAULTS } from './faults.ts';
import { full, makePuller, NEVER } from './pull-support.ts';

const PAGE = fileURLToPath(new URL('../../../docs/pull-faults.md', import.meta.url));

const hub = await new FakeHub().start();
const rows: string[] = [];
try {
  for (const fault of FAULTS) {
    const dir = await mkdtemp(join(tmpdir(), 'svc-faults-'));
    const store = new ModelStore({ dir: join(dir, 'models'), builtinPath: builtinModelPath() });
    const puller = makePuller({ dir, store });
    const settings = { endpoint: hub.endpoint, token: null, is_offline: false };
    const { error, said, fetchedTwice } = await runFault(fault, {
      hub,
      pull: async (name, signal = NEVER, onEvent) => {
        for await (const event of puller.pull(full(parseReference(name)), [], settings, signal)) onEvent?.(event);
        return [];
      },
    });
    const [notice] = said;
    const outcome =
      error === null
        ? `the model${notice === undefined ? '' : `; on the way: ${notice}`}`
        : `\`${error.code}\`: ${error.message}`;
    const before = fault.first === undefined ? '' : ' (a first pull was cut off after a mebibyte)';
    rows.push(`| ${fault.name}${before} | ${named(outcome)} | ${fetchedTwice.toLocaleString('en-US')} |`);
    await puller.close();
    await rm(dir, { recursive: true });
  }
} finally {
  await hub.stop();
}
await writeFile(
  PAGE,
  `# Faults of servers during a pull, and their outcome

Made by \`node --import tsx test/models/pull/pull-faults.ts\`; \`test/models/pull/faults.test.ts\` checks every row. A model
of ${CONTENT.length.toLocaleString('en-US')} bytes is pulled in parts of 256 KiB over three connections, from a hub and a store on two ports of this
machine that behave like the real ones. Bytes fetched twice arrived but could not be kept, or had arrived before. In
every row with an error, no file exists under the model's name.

| what the server does | what the user sees | bytes fetched twice |
|---|---|---|
${rows.join('\n')}
`,
);
console.log(`${rows.length} faults`);

/** Replaces ports, which differ between runs, by names. */
function named(text: string): string {
  return text
    .replaceAll(new URL(hub.endpoint).host, 'the hub')
    .replaceAll(new URL(hub.storeOrigin).host, 'the store')
    .replaceAll('|', '\\|');
}
