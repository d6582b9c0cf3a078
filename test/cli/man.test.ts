/** The man page contains the table of commands, and groff renders it without warnings. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ALIASES } from '../../src/cli/aliases.ts';
import { loadSpecs } from '../../src/cli/commands.ts';
import { flagUsage, usageLine } from '../../src/cli/help.ts';
import { VARIABLES } from '../../src/process/environment.ts';
import { VERSION } from '../../src/config/version.ts';
import { unless } from '../support/skip.ts';
import { isInstalled } from '../support/terminal.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const scratch = mkdtempSync(join(tmpdir(), 'svc-man-'));
const file = join(scratch, 'svc.1');

test.before(() => {
  execFileSync(process.execPath, ['--import', 'tsx', 'scripts/make-man.ts', file], { cwd: ROOT });
});
test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

test('npm installs it as svc(1), and the package contains it', () => {
  const { man, files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    man: readonly string[];
    files: string[];
  };
  // npm links man pages only if they are a list.
  assert.equal(man, ['dist/svc.1']);
  assert.ok(files.includes('dist'));
  assert.match(readFileSync(file, 'utf8'), new RegExp(`^\\.TH SVC 1 "" "svc ${VERSION}"`, 'm'));
});

unless(isInstalled('groff') ? undefined : 'groff is not installed', test)(
  'groff renders it without warnings, with everything from the table',
  async () => {
    // -c -P-bou: plain text without bold or underline. The line length is large enough to avoid wrapping.
    const groff = ['-man', '-Tutf8', '-ww', '-rLL=400n', '-c', '-P-bou', file];
    const { stdout, stderr, status } = spawnSync('groff', groff, { encoding: 'utf8' });
    assert.is(stderr, '');
    assert.is(status, 0);
    const page = stdout.replace(/[ \n]+/g, ' ');
    const has = (text: string): void => {
      assert.ok(page.includes(text.replace(/ +/g, ' ')), text);
    };
    for (const [name, command] of Object.entries(await loadSpecs())) {
      has(usageLine(name, command));
      has(command.summary);
      for (const paragraph of command.detail ?? []) has(paragraph);
      for (const [flag, facts] of Object.entries(command.flags)) has(flagUsage(flag, facts));
      for (const example of command.examples) has(example);
    }
    for (const [alias, name] of Object.entries(ALIASES)) has(`svc ${alias} svc ${name}`);
    for (const name of Object.keys(VARIABLES)) has(name);
    has('78 the configuration is wrong');
  },
);

test('hyphens and leading dots are escaped, so that examples can be pasted into a shell', () => {
  const page = readFileSync(file, 'utf8');
  assert.not.match(page, /^['.](?!\\"|TH|SH|SS|TP|PP|RS|RE|EX|EE|B |I |RI )/m);
  assert.not.match(page, /[^\\]--/);
});

test.run();
