/** A full disk, for each kind of file that svc writes. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { conditionTurns } from '../conditions.ts';
import { waitFor } from '../wait.ts';
import { mountDisk, noDisk } from '../disk.ts';
import { must, type Fault } from '../fault.ts';
import { TINY } from '../scene.ts';
import { ending } from '../see.ts';

export const DISK: readonly Fault[] = [
  {
    name: 'disk full for the log and the state',
    planted: 'the file system of the state directory filled to the last byte while three clients send requests',
    mended: 'space freed',
    withinSeconds: 5,
    daemon: 'absent',
    impossible: noDisk,
    sees: /^svc run: exit 0, disk_space fail: about N MiB free for state and log, every line in `svc logs` afterwards$/,
    async plant(scene) {
      const disk = mountDisk(scene, scene.path('state'));
      await scene.start();
      await scene.load();
      disk.fill();
      const run = ending(await scene.svc('run', '-m', 'tiny', '--max-tokens', '4', 'Hello'));
      const reason = (await conditionTurns(scene, 'disk_space', /^fail$/)).replace(/\d+ MiB/, 'N MiB');
      await scene.timed(() => disk.free());
      await conditionTurns(scene, 'disk_space', /^ok$/);
      await waitFor('the line of meanwhile', () => scene.log().includes('"model":"tiny"'));
      return `svc run: ${run}, ${reason}, every line in \`svc logs\` afterwards`;
    },
  },
  {
    name: 'disk full at the start',
    planted: 'the file system of the state directory full, then `svc start`, `svc run`',
    mended: 'space freed',
    withinSeconds: 5,
    daemon: 'absent',
    impossible: noDisk,
    sees: /^svc start: exit 0, svc run: exit 0, svc stop: exit 0$/,
    async plant(scene) {
      const disk = mountDisk(scene, scene.path('state'));
      disk.fill();
      const start = ending(await scene.svc('start'));
      const run = ending(await scene.svc('run', 'Hello'));
      const stop = ending(await scene.svc('stop'));
      await scene.timed(async () => {
        disk.free();
        await scene.start();
      });
      return `svc start: ${start}, svc run: ${run}, svc stop: ${stop}`;
    },
  },
  {
    name: 'disk full for a model',
    planted: 'the file system of the models full, then `svc model add --copy`',
    mended: 'space freed',
    withinSeconds: 5,
    daemon: 'absent',
    impossible: noDisk,
    sees: /^exit 73: cannot write to \$SVC_HOME\/models: the disk is full, and no part of it is left$/,
    async plant(scene) {
      const registry = readFileSync(scene.path('models', 'registry.json'));
      const disk = mountDisk(scene, scene.path('models'));
      await scene.start();
      await scene.load();
      disk.fill();
      const saw = ending(await scene.svc('model', 'add', TINY, '--copy', '--name', 'copy'));
      const left = readdirSync(scene.path('models'), { recursive: true }).map(String);
      must(!left.some((name) => /gguf|tmp|partial/.test(name)), `left behind: ${left.join(', ')}`);
      must(registry.length > 0, 'there is a registry below the file system');
      await scene.timed(() => disk.free());
      return `${saw}, and no part of it is left`;
    },
  },
  {
    name: 'disk full for the config',
    planted: 'the file system of the config full, then `svc config set`',
    mended: 'space freed',
    withinSeconds: 5,
    daemon: 'absent',
    impossible: noDisk,
    sees: /^exit 73: .*, and the config is unchanged$/,
    async plant(scene) {
      const disk = mountDisk(scene, scene.path('config'));
      scene.configure('{ "log": { "level": "info" } } // mine\n');
      await scene.start();
      await scene.load();
      disk.fill();
      const saw = ending(await scene.svc('config', 'set', 'log.level', 'debug'));
      must(readFileSync(scene.configFile, 'utf8').endsWith('// mine\n'), 'the config is not what it was');
      await scene.timed(() => disk.free());
      return `${saw}, and the config is unchanged`;
    },
  },
  {
    name: 'disk full for an API key',
    planted: 'the file system of the keys full, then `svc key add`',
    mended: 'space freed',
    withinSeconds: 5,
    daemon: 'absent',
    impossible: noDisk,
    sees: /^exit 73: .*, and no key exists$/,
    async plant(scene) {
      const disk = mountDisk(scene, scene.path('data'));
      await scene.start();
      await scene.load();
      disk.fill();
      const result = await scene.svc('key', 'add', 'mine');
      must(result.stdout === '', 'a key was printed');
      must(!existsSync(scene.path('data', 'keys.json')), 'a file of keys was left');
      await scene.timed(() => disk.free());
      return `${ending(result)}, and no key exists`;
    },
  },
];
