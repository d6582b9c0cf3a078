/** Faults of the config, the addresses, the addon and the API keys. */
import { once } from 'node:events';
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { loadAddon } from '../../../src/engine/loader.ts';
import { ask } from '../../http/ask.ts';
import { waitFor } from '../wait.ts';
import { conditionTurns } from '../conditions.ts';
import { must, type Fault } from '../fault.ts';
import type { Scene } from '../scene.ts';
import { answer, ending } from '../see.ts';

const BROKEN = '{\n  "htp": {}\n}';

function portTaken(what: 'HTTP' | 'gRPC'): Fault {
  return {
    name: `${what} port taken`,
    planted: `another program listens on the ${what} port, then \`svc start\``,
    mended: 'the other program ended, `svc start`',
    withinSeconds: 8,
    daemon: 'absent',
    sees: new RegExp(
      `^exit 1: the daemon ended as it started \\(exit code 78\\): cannot listen for ${what}: another program listens on 127\\.0\\.0\\.1:PORT$`,
    ),
    async plant(scene) {
      const [host = '', port = ''] = scene.home.env[what === 'HTTP' ? 'SVC_HTTP_ADDR' : 'SVC_GRPC_ADDR'].split(':');
      const other = createServer().listen(Number(port), host);
      await once(other, 'listening');
      const saw = ending(await scene.svc('start'));
      await scene.timed(async () => {
        other.close();
        await scene.start();
      });
      return saw;
    },
  };
}

/** Copies the addon with its libraries; `env` sets `SVC_ADDON` to the copy. */
function copyAddon(scene: Scene): { readonly directory: string; readonly env: Record<string, string> } {
  const directory = scene.path('addon');
  cpSync(loadAddon().directory, directory, { recursive: true, dereference: true });
  return { directory, env: { SVC_ADDON: join(directory, 'svc.node') } };
}

function addonFault(name: string, planted: string, spoil: (directory: string) => () => void): Fault {
  return {
    name,
    planted: `${planted}, then \`svc start\`, \`svc run\``,
    mended: 'put back',
    withinSeconds: 15,
    daemon: 'absent',
    sees: /^svc start: exit 1: the daemon is DEGRADED and cannot serve \(engine: .*\), svc run: exit 69: /,
    async plant(scene) {
      const { directory, env } = copyAddon(scene);
      const mend = spoil(directory);
      const start = ending(await scene.spawn(['start'], { env }).result);
      const run = ending(await scene.svc('run', 'Hello'));
      await scene.timed(mend);
      return `svc start: ${start}, svc run: ${run}`;
    },
  };
}

/** Adds an API key and sends it with every request from now on. */
async function addKey(scene: Scene): Promise<void> {
  const { code, stdout } = await scene.svc('key', 'add', 'mine');
  must(code === 0, 'no key could be made');
  scene.requests.headers = { authorization: `Bearer ${stdout.trim()}` };
}

/** The key file disappears while the daemon runs: no client is admitted until it is back. */
function keysGone(name: string, planted: string, path: (scene: Scene) => string): Fault {
  return {
    name,
    planted: `${planted} under load with a key`,
    mended: 'put back',
    withinSeconds: 3,
    daemon: 'lives',
    mayFail: ['invalid_api_key'],
    sees: /^without a key: HTTP 401: .*, api_keys warn: /,
    async plant(scene) {
      await addKey(scene);
      await scene.load();
      const gone = path(scene);
      renameSync(gone, `${gone}.away`);
      const reason = await conditionTurns(scene, 'api_keys', /^warn$/);
      const stranger = answer(await ask({ port: scene.port }, '/v1/models'));
      await scene.timed(() => {
        // The daemon may have created the folder again.
        rmSync(gone, { recursive: true, force: true });
        renameSync(`${gone}.away`, gone);
      });
      await conditionTurns(scene, 'api_keys', /^ok$/);
      return `without a key: ${stranger}, ${reason}`;
    },
  };
}

export const SETTINGS: readonly Fault[] = [
  {
    name: 'config broken at the start',
    planted: 'an unknown key in `config.json`, then `svc start`',
    mended: 'corrected, `svc start`',
    withinSeconds: 8,
    daemon: 'absent',
    sees: /^exit 1: the daemon ended as it started \(exit code 78\): \$SVC_HOME\/config\/config\.json:2:3: unknown key "htp"$/,
    async plant(scene) {
      scene.configure(BROKEN);
      const saw = ending(await scene.svc('start'));
      await scene.timed(async () => {
        scene.configure({});
        await scene.start();
      });
      return saw;
    },
  },
  {
    name: 'config broken at a reload',
    planted: 'an unknown key in `config.json`, then SIGHUP under load',
    mended: 'corrected, SIGHUP',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    sees: /^svc status: exit 0, config warn: .*config\.json:2:3: unknown key "htp"/,
    async plant(scene) {
      const pid = await scene.pid();
      scene.configure(BROKEN);
      process.kill(pid, 'SIGHUP');
      const reason = await conditionTurns(scene, 'config', /^warn$/);
      const status = ending(await scene.svc('status'));
      await scene.timed(() => {
        scene.configure({});
        process.kill(pid, 'SIGHUP');
      });
      await conditionTurns(scene, 'config', /^ok$/);
      return `svc status: ${status}, ${reason}`;
    },
  },
  {
    name: 'config removed',
    planted: 'the directory of `config.json` removed while the daemon runs, then SIGHUP under load',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    config: { log: { level: 'debug' } },
    sees: /^svc status: exit 0, the defaults apply$/,
    async plant(scene) {
      const pid = await scene.pid();
      await scene.timed(() => {
        rmSync(scene.path('config'), { recursive: true });
        process.kill(pid, 'SIGHUP');
      });
      await waitFor('the reload', () => scene.log().includes('"msg":"config reloaded"'));
      return `svc status: ${ending(await scene.svc('status'))}, the defaults apply`;
    },
  },
  portTaken('HTTP'),
  portTaken('gRPC'),
  addonFault('addon missing', '`svc.node` is missing', (directory) => {
    const file = join(directory, 'svc.node');
    renameSync(file, `${file}.away`);
    return () => renameSync(`${file}.away`, file);
  }),
  addonFault('addon damaged', '`svc.node` cut in half', (directory) => {
    const file = join(directory, 'svc.node');
    const good = readFileSync(file);
    writeFileSync(file, good.subarray(0, Math.floor(good.length / 2)));
    return () => {
      writeFileSync(`${file}.good`, good);
      renameSync(`${file}.good`, file);
    };
  }),
  addonFault('library of the addon missing', '`libllama` is missing', (directory) => {
    const library = readdirSync(directory).find((name) => /^libllama\./.test(name));
    must(library !== undefined, 'there is no libllama beside the addon');
    const file = join(directory, library);
    renameSync(file, `${file}.away`);
    return () => renameSync(`${file}.away`, file);
  }),
  {
    name: 'API key removed while its client sends requests',
    planted: '`svc key rm` under load with that key, another key stays',
    mended: '`svc key add`',
    withinSeconds: 3,
    daemon: 'lives',
    mayFail: ['invalid_api_key'],
    sees: /^HTTP 401 invalid_api_key: /,
    async plant(scene) {
      must((await scene.svc('key', 'add', 'other')).code === 0, 'no key could be made');
      await addKey(scene);
      await scene.load();
      must((await scene.svc('key', 'rm', 'mine')).code === 0, 'the key could not be removed');
      const { saw } = await scene.requests.ask();
      await scene.timed(() => addKey(scene));
      return saw;
    },
  },
  {
    name: 'first API key created while clients send none',
    planted: '`svc key add` while three clients send requests, then `svc run`',
    mended: 'the clients send the key',
    withinSeconds: 3,
    daemon: 'lives',
    underLoad: true,
    mayFail: ['invalid_api_key'],
    sees: /^HTTP 401 invalid_api_key: .*, svc run: exit 0$/,
    async plant(scene) {
      const { stdout } = await scene.svc('key', 'add', 'mine');
      const { saw } = await scene.requests.ask();
      const run = ending(await scene.svc('run', 'Hello'));
      await scene.timed(() => (scene.requests.headers = { authorization: `Bearer ${stdout.trim()}` }));
      return `${saw}, svc run: ${run}`;
    },
  },
  {
    name: 'file of API keys damaged',
    planted: '`keys.json` overwritten with garbage under load with a key',
    mended: 'put back',
    withinSeconds: 3,
    daemon: 'lives',
    mayFail: ['invalid_api_key'],
    sees: /^HTTP 401 invalid_api_key: .*, \/livez: HTTP 200$/,
    async plant(scene) {
      const file = scene.path('data', 'keys.json');
      await addKey(scene);
      await scene.load();
      const good = readFileSync(file);
      truncateSync(file, Math.floor(good.length / 2));
      const { saw } = await scene.requests.ask();
      const livez = answer(await ask({ port: scene.port }, '/livez'));
      await scene.timed(() => writeFileSync(file, good));
      return `${saw}, /livez: ${livez}`;
    },
  },
  keysGone('file of API keys removed', '`keys.json` moved away', (scene) => scene.path('data', 'keys.json')),
  keysGone('data directory removed', 'the directory of `keys.json` moved away', (scene) => scene.path('data')),
];
