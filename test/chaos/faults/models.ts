/** Faults of model files, before and while they are loaded. */
import {
  copyFileSync,
  openSync,
  closeSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { fileURLToPath } from 'node:url';
import { conditionTurns } from '../conditions.ts';
import { must, type Fault } from '../fault.ts';
import type { Stream } from '../requests.ts';
import { TINY, type Scene } from '../scene.ts';
import { ending } from '../see.ts';

const OTHER = fileURLToPath(new URL('../../../build/models/tiny-gemma.gguf', import.meta.url));

/** Copies the model into the scene's home and registers it as `mine`. */
async function addCopy(scene: Scene): Promise<string> {
  const file = scene.path('mine.gguf');
  copyFileSync(TINY, file);
  const { code, stderr } = await scene.svc('model', 'add', file, '--name', 'mine');
  must(code === 0, `svc model add: ${stderr}`);
  return file;
}

async function streamOfCopy(scene: Scene): Promise<Stream> {
  return await scene.requests.stream({ model: 'mine', long: true });
}

async function runCopy(scene: Scene): Promise<string> {
  return ending(await scene.svc('run', '-m', 'mine', '--max-tokens', '4', 'Hello'));
}

function damage(file: string, kind: 'half' | 'garbage' | 'nothing' | 'magic'): void {
  const good = readFileSync(TINY);
  if (kind === 'half') writeFileSync(file, good.subarray(0, Math.floor(good.length / 2)));
  if (kind === 'garbage') writeFileSync(file, Buffer.alloc(100_000, 'garbage'));
  if (kind === 'nothing') writeFileSync(file, '');
  if (kind === 'magic')
    writeFileSync(file, Buffer.concat([good.subarray(0, 8), Buffer.alloc(16, 0x7f), good.subarray(24)]));
}

/** A command removes a model while it answers. */
function takenFromAStream(name: string, command: string, args: readonly string[]): Fault {
  return {
    name,
    planted: `\`${command}\` in the middle of a stream from it`,
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^exit 75: tiny is in use by 1 request, the stream: the whole answer$/,
    async plant(scene) {
      const stream = await scene.heldStream();
      let saw = '';
      await scene.timed(async () => (saw = ending(await scene.svc(...args))));
      stream.release();
      return `${saw}, the stream: ${(await stream.end).saw}`;
    },
  };
}

export const MODELS: readonly Fault[] = [
  {
    name: 'model store removed',
    planted: 'the directory of the models removed while the daemon runs',
    mended: 'put back',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^svc status: exit 4, model_store fail: \$SVC_HOME\/models was removed, with the models in it$/,
    async plant(scene) {
      renameSync(scene.path('models'), scene.path('away'));
      const reason = await conditionTurns(scene, 'model_store', /^fail$/);
      const status = ending(await scene.svc('status'));
      await scene.timed(() => renameSync(scene.path('away'), scene.path('models')), 'tiny');
      return `svc status: ${status}, ${reason}`;
    },
  },
  {
    name: 'file of a loaded model removed',
    planted: 'the file moved away in the middle of a stream from it, then `svc run`',
    mended: 'put back',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^the whole answer, svc run: exit 1: the model mine cannot be loaded: there is no file \$SVC_HOME\/mine\.gguf$/,
    async plant(scene) {
      const file = await addCopy(scene);
      const stream = await streamOfCopy(scene);
      renameSync(file, `${file}.away`);
      const { saw } = await stream.end;
      const run = await runCopy(scene);
      await scene.timed(() => renameSync(`${file}.away`, file), 'mine');
      return `${saw}, svc run: ${run}`;
    },
  },
  {
    name: 'file of a loaded model cut in half',
    planted: 'the file truncated in the middle of a stream from it, then `svc run`',
    mended: 'the file replaced by a whole one',
    withinSeconds: 10,
    daemon: 'lives',
    underLoad: true,
    // The answer is complete because the weights were read into memory at load.
    sees: /^the whole answer, svc run: exit 65: .* is cut short: /,
    async plant(scene) {
      const file = await addCopy(scene);
      const stream = await streamOfCopy(scene);
      truncateSync(file, Math.floor(statSync(file).size / 2));
      const { saw } = await stream.end;
      const run = await runCopy(scene);
      await scene.timed(() => copyFileSync(TINY, file), 'mine');
      return `${saw}, svc run: ${run}`;
    },
  },
  {
    name: 'file of a loaded model overwritten',
    planted: 'garbage written over the whole file in the middle of a stream from it, then `svc run` after an unload',
    mended: 'the file replaced by a good one',
    withinSeconds: 10,
    daemon: 'lives',
    underLoad: true,
    mayFail: ['engine_crashed', 'internal'],
    sees: /svc run: exit 65: /,
    async plant(scene) {
      const file = await addCopy(scene);
      const stream = await streamOfCopy(scene);
      const descriptor = openSync(file, 'r+');
      writeSync(descriptor, Buffer.alloc(statSync(file).size, 'garbage'), 0);
      closeSync(descriptor);
      const { saw } = await stream.end;
      must((await scene.svc('model', 'unload', 'mine')).code === 0, 'it could not be unloaded');
      const run = await runCopy(scene);
      await scene.timed(() => {
        copyFileSync(TINY, `${file}.good`);
        renameSync(`${file}.good`, file);
      }, 'mine');
      return `${saw}, svc run: ${run}`;
    },
  },
  {
    name: 'file of a loaded model replaced by another model',
    planted: 'another model renamed over the file in the middle of a stream from it, then `svc run`',
    mended: '`svc model unload`',
    withinSeconds: 10,
    daemon: 'lives',
    underLoad: true,
    sees: /^the whole answer, svc run: exit 0$/,
    async plant(scene) {
      const file = await addCopy(scene);
      const stream = await streamOfCopy(scene);
      copyFileSync(OTHER, `${file}.new`);
      renameSync(`${file}.new`, file);
      const { saw } = await stream.end;
      const run = await runCopy(scene);
      await scene.timed(async () => {
        must((await scene.svc('model', 'unload', 'mine')).code === 0, 'it could not be unloaded');
        must((await scene.svc('model', 'add', file, '--name', 'other')).code === 0, 'it could not be added');
      }, 'other');
      return `${saw}, svc run: ${run}`;
    },
  },
  {
    name: 'damaged model files',
    planted: '`svc run -m` with a file cut in half, one of garbage, an empty one and one with impossible counts',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^four times exit 65, the first: exit 65: .*half\.gguf/,
    async plant(scene) {
      const kinds = ['half', 'garbage', 'nothing', 'magic'] as const;
      const ends: string[] = [];
      await scene.timed(async () => {
        for (const kind of kinds) {
          const file = scene.path(`${kind}.gguf`);
          damage(file, kind);
          ends.push(ending(await scene.svc('run', '-m', file, 'Hello')));
        }
      });
      must(
        ends.every((end) => end.startsWith('exit 65: ')),
        ends.join(', '),
      );
      return `four times exit 65, the first: ${String(ends[0])}`;
    },
  },
  {
    name: 'list of models is garbage',
    planted: '`registry.json` overwritten with garbage while the daemon runs, then `svc model list`, `svc model add`',
    mended: 'put back',
    withinSeconds: 5,
    daemon: 'lives',
    sees: /^svc model list: exit 78: the list of models \$SVC_HOME\/models\/registry\.json is damaged, or of a newer svc, svc model add: exit 78: /,
    async plant(scene) {
      const file = scene.path('models', 'registry.json');
      const good = readFileSync(file);
      writeFileSync(file, '{"version":1,"models":[');
      const list = ending(await scene.svc('model', 'list'));
      const add = ending(await scene.svc('model', 'add', OTHER));
      must(readFileSync(file, 'utf8') === '{"version":1,"models":[', 'it was written over');
      await scene.timed(() => writeFileSync(file, good), 'tiny');
      return `svc model list: ${list}, svc model add: ${add}`;
    },
  },
  takenFromAStream('unload of a model in use', 'svc model unload', ['model', 'unload', 'tiny']),
  takenFromAStream('removal of a model in use', 'svc model rm', ['model', 'rm', 'tiny', '--yes']),
  {
    name: 'file of the default model missing at the start',
    planted: 'the default model’s file removed while there is no daemon, then `svc start`',
    mended: 'put back',
    withinSeconds: 8,
    daemon: 'absent',
    sees: /^exit 1: the daemon is DEGRADED and cannot serve/,
    async plant(scene) {
      const file = await addCopy(scene);
      must((await scene.svc('model', 'default', 'mine')).code === 0, 'it could not be made the default');
      renameSync(file, `${file}.away`);
      const saw = ending(await scene.svc('start'));
      await scene.timed(() => renameSync(`${file}.away`, file), 'mine');
      return saw;
    },
  },
];
