/** The completion scripts, run in real shells. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ALIASES } from '../../src/cli/aliases.ts';
import { loadSpecs } from '../../src/cli/commands.ts';
import { SHELLS } from '../../src/cli/commands/completion/shells.ts';
import { GROUPS } from '../../src/cli/groups.ts';
import { catalogue } from '../../src/config/catalogue.ts';
import { settingNames } from '../../src/config/settings.ts';
import { assertExit } from '../support/exit.ts';
import { makeHome, type Home } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { svc, SVC_COMMAND } from '../support/svc.ts';
import { isInstalled, KEYS, NO_TERMINAL, Terminal } from '../support/terminal.ts';

const COMMANDS = await loadSpecs();
const ROOT = join(import.meta.dirname, '..', '..');

interface Context {
  home: Home;
  /** Environment with `svc` on the PATH. */
  env: Record<string, string>;
  script(shell: keyof typeof SHELLS): string;
}
const test = suite<Context>('completion');
test.before(async (context) => {
  const { dir, env } = (context.home = await makeHome());
  const bin = join(dir, 'bin');
  mkdirSync(bin);
  const words = SVC_COMMAND.map((word) => `'${word}'`).join(' ');
  writeFileSync(join(bin, 'svc'), `#!/bin/sh\ncd '${ROOT}' && exec ${words} "$@"\n`);
  chmodSync(join(bin, 'svc'), 0o755);
  const path = [bin, process.env['PATH']].join(':');
  context.env = { ...(process.env as Record<string, string>), ...env, PATH: path, HOME: dir, ZDOTDIR: dir };
  context.script = (shell) => {
    const file = join(dir, `svc.${shell}`);
    writeFileSync(file, SHELLS[shell](Object.entries(COMMANDS)));
    return file;
  };
});
test.after(({ home }) => home.remove());

/** Returns the completions after these words; the last word is the one being typed. */
type Complete = (...words: string[]) => string[];

/** Checks the completions that every shell must offer. */
function check(complete: Complete): void {
  const names = Object.keys(COMMANDS);
  const first = [
    ...names.filter((name) => !name.includes(' ')),
    ...Object.keys(ALIASES),
    ...Object.keys(GROUPS),
    'help',
  ];
  assert.equal(complete('').sort(), first.sort());
  for (const group of Object.keys(GROUPS)) {
    const second = names.filter((name) => name.startsWith(`${group} `)).map((name) => name.slice(group.length + 1));
    assert.equal(complete(group, '').sort(), second.sort(), group);
  }
  assert.equal(complete('stat'), ['status']);
  assert.equal(complete('run', '--max'), ['--max-tokens']);
  assert.equal(complete('health', '--source', '').sort(), ['grpc', 'http', 'socket']);
  assert.equal(complete('health', '--json', '--source', 's'), ['socket']);
  assert.equal(complete('completion', '').sort(), ['bash', 'fish', 'powershell', 'zsh']);
  assert.equal(complete('config', 'get', '').sort(), settingNames().sort());
  assert.equal(complete('model', 'show', 'b'), ['builtin']);
  assert.equal(complete('show', 'b'), ['builtin']);
  assert.equal(complete('rm', '--ada'), ['--adapter']);
  assert.equal(complete('launch', 'cod'), ['codex']);
  assert.equal(complete('model', '--json', 'sho'), ['show']);
  assert.ok(complete('run', '-m', 'b').includes('builtin'));
  assert.ok(complete('run', 'a prompt', '--model', 'b').includes('builtin'));
  assert.equal(complete('run', '--provider', ''), ['local']);
  assert.equal(complete('provider', 'set', '').sort(), [...catalogue().keys()].sort());
  assert.ok(complete('run', 'b').includes('builtin'));
  assert.ok(complete('model', 'add', './pack').includes('./package.json'));
}

test('bash', ({ env, script }) => {
  const program =
    'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _svc; printf "%s\\n" "${COMPREPLY[@]}"';
  const run = (words: readonly string[]): string[] => {
    const args = ['--norc', '-c', program, 'bash', script('bash'), 'svc', ...words];
    return execFileSync('bash', args, { cwd: ROOT, env, encoding: 'utf8' })
      .split('\n')
      .filter((line) => line !== '');
  };
  check((...words) => run(words));
  // bash splits words at `=`.
  assert.equal(run(['health', '--source', '=']).sort(), ['grpc', 'http', 'socket']);
  assert.equal(run(['health', '--source', '=', 's']), ['socket']);
  assert.equal(run(['run', '--model', '=', 'x', '--st']).sort(), ['--stats', '--stop']);
});

const without = (program: string): string | undefined =>
  isInstalled(program) ? undefined : `${program} is not installed`;

unless(NO_TERMINAL, test)('bash on a terminal', async ({ env, script }) => {
  writeFileSync(join(env['HOME'] ?? '', '.bashrc'), `PS1='ready> '; source '${script('bash')}'\n`);
  const terminal = new Terminal(['bash', '--rcfile', join(env['HOME'] ?? '', '.bashrc'), '-i'], env);
  try {
    await terminal.shows('ready>');
    terminal.type(`svc vers${KEYS.tab}--js${KEYS.tab}`);
    await terminal.shows('svc version --json');
    terminal.type(`\u0015svc model add ./scri${KEYS.tab}`);
    await terminal.shows('svc model add ./scripts/');
  } finally {
    terminal.kill();
  }
});

unless(without('zsh') ?? NO_TERMINAL, test)('zsh on a terminal', async ({ env, script, home }) => {
  execFileSync('zsh', ['-n', script('zsh')]);
  writeFileSync(
    join(home.dir, '.zshrc'),
    `autoload -Uz compinit; compinit -u -d '${home.dir}/zcompdump'; source '${script('zsh')}'
PROMPT='ready> '; unsetopt prompt_cr prompt_sp automenu; LISTMAX=0; setopt list_rows_first
cd '${ROOT}'\n`,
  );
  const terminal = new Terminal(['zsh', '-d', '-i'], env);
  try {
    await terminal.shows('ready>');
    /** Presses Tab once; expects the completed line, or the list below it. */
    const tab = async (line: string, expected: RegExp): Promise<void> => {
      terminal.clear();
      terminal.type(`${line}${KEYS.tab}`);
      await terminal.shows(expected);
      terminal.type('\u0015');
    };
    await tab('svc vers', /svc version $/);
    await tab('svc config val', /svc config validate $/);
    await tab('svc run --max', /svc run --max-tokens=?$/);
    await tab('svc health --source so', /svc health --source socket $/);
    await tab('svc model show bui', /svc model show builtin $/);
    await tab('svc run -m buil', /(build\/\s+builtin|builtin\s+build\/)/);
    await tab('svc run --provider lo', /svc run --provider local $/);
    await tab('svc config get http.ho', /svc config get http\.host $/);
    await tab('svc model add ./package.j', /svc model add \.\/package\.json $/);
    await tab('svc sta', /start .*Start the daemon[^]*status .*Show whether/);
    await tab('svc completion ', /bash[^]*fish[^]*powershell[^]*zsh/);
  } finally {
    terminal.kill();
  }
});

unless(without('fish'), test)('fish', ({ env, script }) => {
  const run = (line: string): string[] => {
    const args = ['--no-config', '-c', 'source $argv[1]; complete -C "$argv[2]"', script('fish'), line];
    const offered = execFileSync('fish', args, { cwd: ROOT, env, encoding: 'utf8' });
    return offered.split('\n').flatMap((each) => (each === '' ? [] : [each.split('\t', 1)[0] ?? '']));
  };
  check((...words) => run(`svc ${words.map((word) => (word.includes(' ') ? `'${word}'` : word)).join(' ')}`));
});

unless(without('pwsh'), test)('PowerShell', ({ env, script }) => {
  const program = '. $args[0]; $line = $args[1]; (TabExpansion2 $line $line.Length).CompletionMatches.CompletionText';
  const file = `${script('powershell')}.ps1`;
  writeFileSync(file, SHELLS.powershell(Object.entries(COMMANDS)));
  check((...words) => {
    const line = `svc ${words.map((word) => (word.includes(' ') ? `'${word}'` : word)).join(' ')}`;
    const args = ['-NoProfile', '-Command', `& { ${program} } '${file}' '${line.replaceAll("'", "''")}'`];
    const offered = execFileSync('pwsh', args, { cwd: ROOT, env, encoding: 'utf8' });
    return offered.split(/\r?\n/).filter((each) => each !== '');
  });
});

// Where there is no PowerShell, this finds what it would refuse: it does not tell the case of keys apart.
test('no table of the PowerShell script has a key twice', () => {
  const script = SHELLS.powershell(Object.entries(COMMANDS));
  const KEY = /'((?:[^']|'')*)' = /g;
  const tables = [
    ...[...script.matchAll(/\[ordered\]@\{ (.*) \}$/gm)].map(([, table = '']) => table),
    ...[...script.matchAll(/ = @\{\n([^]*?)\n {4}\}/g)].map(([, lines = '']) =>
      lines.replaceAll(/ = (\[|\{).*$/gm, ' = '),
    ),
  ];
  assert.ok(tables.length > Object.keys(COMMANDS).length);
  for (const table of tables) {
    const keys = [...table.matchAll(KEY)].map(([, key = '']) => key.toLowerCase());
    assert.equal(
      keys.filter((key, at) => keys.indexOf(key) !== at),
      [],
      table.slice(0, 80),
    );
  }
});

test('svc completion prints the script', async ({ home }) => {
  for (const shell of ['bash', 'zsh', 'fish', 'powershell'] as const) {
    const { code, stdout } = await svc(['completion', shell], { home });
    assert.is(code, 0);
    assert.is(stdout.trimEnd(), SHELLS[shell](Object.entries(COMMANDS)).trimEnd());
  }
  const wrong = await svc(['completion', 'fsh'], { home });
  assertExit(wrong, 2);
  assert.match(wrong.stderr, /one of bash, zsh, fish, powershell[^]*did you mean/);
});

test.run();
