import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { placesOfConfig, troublesOf, type StoragePaths } from '../../src/home/storage.ts';
import { makeHome, type Home } from '../support/home.ts';
import { canMount, mountMemoryDisk, unmount } from '../support/memory-disk.ts';

const NOW = new Date('2026-01-01T00:00:00Z');

interface Context {
  home: Home;
  paths: StoragePaths;
}
const test = suite<Context>('storage');
test.before.each(async (context) => {
  context.home = await makeHome();
  const at = (name: string): string => join(context.home.dir, name);
  context.paths = {
    stateDir: at('state'),
    cacheDir: at('cache'),
    dataDir: at('data'),
    daemonFile: at('state/daemon.json'),
    logFile: at('state/daemon.log'),
    credentialsFile: at('data/credentials.json'),
  };
  mkdirSync(dirname(context.paths.logFile), { recursive: true });
});
test.after.each(({ home }) => home.remove());

test('what is absent is no trouble, a broken link is', async ({ paths }) => {
  assert.equal(await troublesOf(paths, NOW), []);
  symlinkSync('nowhere', paths.logFile);
  assert.equal(await troublesOf(paths, NOW), [`the log ${paths.logFile} cannot be used: it is a broken link`]);
});

test('a directory that is absent and cannot be created is trouble', async ({ home, paths }) => {
  const disk = join(home.dir, 'disk');
  mkdirSync(disk);
  const isMounted = canMount();
  if (isMounted) mountMemoryDisk(disk, 'size=64k,ro');
  else chmodSync(disk, 0o500);
  const cacheDir = join(disk, 'of', 'svc');
  try {
    const [trouble = '', ...more] = await troublesOf({ ...paths, cacheDir }, NOW);
    if (isMounted || process.getuid?.() !== 0)
      assert.match(trouble, `the cache directory ${cacheDir} cannot be used: it is missing, and ${disk}: `);
    assert.equal(more, []);
  } finally {
    if (isMounted) await unmount(disk);
  }
});

test('the config may be absent, but not be something else', async ({ home, paths }) => {
  const configFile = join(home.dir, 'config', 'config.json');
  const troubles = (): Promise<string[]> => troublesOf(paths, NOW, placesOfConfig({ configFile }));
  assert.equal(await troubles(), []);
  mkdirSync(configFile, { recursive: true });
  assert.equal(await troubles(), [`the config file ${configFile} cannot be used: it is not a regular file`]);
  rmSync(dirname(configFile), { recursive: true });
  writeFileSync(dirname(configFile), 'a file');
  assert.match((await troubles()).join(), `the config directory ${dirname(configFile)} cannot be used`);
});

test('a file that comes into being while it is checked is no trouble', async ({ paths }) => {
  for (let round = 0; round < 200; round += 1) {
    const checked = troublesOf(paths, NOW);
    setImmediate(() => {
      writeFileSync(paths.logFile, '');
    });
    assert.equal(await checked, [], `round ${String(round)}`);
    rmSync(paths.logFile, { force: true });
  }
});

test.run();
