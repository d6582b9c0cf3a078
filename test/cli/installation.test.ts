/** What `svc uninstall` says of the program itself, for each way in which it may have been installed. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import { removalOfProgram } from '../../src/cli/machine/installation.ts';
import { svcSuite } from '../support/svc-suite.ts';

const test = svcSuite('installation');

/** Makes an empty file, or one with text, with its directories. */
function put(path: string, text = ''): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

test('npm: globally, with the package of the platform, and in a project', ({ home }) => {
  const lib = join(home.dir, 'lib', 'node_modules');
  const path = join(lib, 'svc-runtime');
  put(join(path, 'package.json'));
  assert.is(removalOfProgram(path, home.dir), 'npm rm -g svc-runtime');
  put(join(lib, 'svc-runtime-linux-x64', 'package.json'));
  assert.is(removalOfProgram(path, home.dir), 'npm rm -g svc-runtime svc-runtime-linux-x64');
  const project = join(home.dir, 'project');
  put(join(project, 'package.json'));
  const own = join(project, 'node_modules', 'svc-runtime');
  assert.is(removalOfProgram(own, home.dir), `npm rm svc-runtime, in ${project}`);
});

test('other package managers for Node, by their global folders', ({ home }) => {
  for (const [folder, command] of [
    ['.local/share/pnpm/global/5/.pnpm/svc-runtime@0.1.0/node_modules', 'pnpm rm -g svc-runtime'],
    ['.config/yarn/global/node_modules', 'yarn global remove svc-runtime'],
    ['AppData/Local/Yarn/Data/global/node_modules', 'yarn global remove svc-runtime'],
    ['.bun/install/global/node_modules', 'bun rm -g svc-runtime'],
  ] as const)
    assert.is(removalOfProgram(join(home.dir, folder, 'svc-runtime'), home.dir), command);
});

test('a project of pnpm, and the cache of npx', ({ home }) => {
  const project = join(home.dir, 'project');
  const own = join(project, 'node_modules', '.pnpm', 'svc-runtime@0.1.0', 'node_modules', 'svc-runtime');
  assert.is(removalOfProgram(own, home.dir), `pnpm rm svc-runtime, in ${project}`);
  const cache = join(home.dir, '.npm', '_npx', '0123456789abcdef');
  put(join(cache, 'package.json'));
  assert.is(removalOfProgram(join(cache, 'node_modules', 'svc-runtime'), home.dir), `delete ${cache}`);
});

test('Homebrew, which has npm packages as well', ({ home }) => {
  const formula = '/opt/homebrew/Cellar/svc-runtime/0.1.0/libexec/lib/node_modules/svc-runtime';
  assert.is(removalOfProgram(formula, home.dir), 'brew uninstall svc-runtime');
  const global = '/opt/homebrew/lib/node_modules/svc-runtime';
  assert.is(removalOfProgram(global, home.dir), 'npm rm -g svc-runtime');
});

test('packages of Debian and Arch, by the files that their databases list', ({ home }) => {
  const path = '/usr/lib/svc/svc';
  assert.is(removalOfProgram(path, home.dir), `delete ${path}`);
  put(join(home.dir, 'var/lib/pacman/local/svc-runtime-bin-0.1.0-1/files'), '%FILES%\nusr/lib/svc/\nusr/lib/svc/svc\n');
  assert.is(removalOfProgram(path, home.dir), 'sudo pacman -R svc-runtime-bin');
  assert.is(removalOfProgram('/usr/lib/svc', home.dir), 'sudo pacman -R svc-runtime-bin', 'a folder');
  put(join(home.dir, 'var/lib/dpkg/info/svc-runtime.list'), '/.\n/usr/lib/svc\n/usr/lib/svc/svc\n');
  assert.is(removalOfProgram(path, home.dir), 'sudo apt remove svc-runtime');
  // Another copy beside the package.
  const copy = join(home.dir, 'bin', 'svc');
  assert.is(removalOfProgram(copy, home.dir), `delete ${copy}`);
});

test.run();
