/** What README.md and the guides tell people to type and to follow exists: commands, flags, settings, links. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { loadSpecs } from '../../src/cli/commands.ts';
import { dispatch, parse } from '../../src/cli/parse.ts';
import { checkSettingName, setSetting, settingNames } from '../../src/config/settings.ts';
import { read, root } from './source-files.ts';

const SPECS = await loadSpecs();

function pagesIn(folder: string): string[] {
  return readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`);
}
const PAGES = ['README.md', 'CONTRIBUTING.md', ...pagesIn('docs'), ...pagesIn('docs/guides')];
const GUIDES = ['README.md', 'docs/README.md', ...pagesIn('docs/guides')];

/** The text of a page by its fences: prose, then by turns the language of a block, the block, nothing, and prose. */
const byFences = (page: string): string[] => read(page).split(/^```(.*)$/m);

/** Lines of the blocks in a shell's language, and the commands in backquotes. */
function commandsOf(page: string): string[] {
  const parts = byFences(page);
  const blocks = parts.flatMap((block, i) => (i % 4 === 2 && parts[i - 1] === '' ? block.split('\n') : []));
  const text = proseOf(page);
  const inline = [...text.matchAll(/`(svc [^`]*)`/g)].map(([, command = '']) => command);
  return [...blocks, ...inline].map((line) => line.trim()).filter((line) => line.startsWith('svc '));
}

function proseOf(page: string): string {
  return byFences(page)
    .filter((_, i) => i % 4 === 0)
    .join('');
}

/** The arguments of a command without a comment, quotes or pipes. */
function wordsOf(command: string): string[] {
  const [alone = ''] = command.split(/\s+#|\s+\|\s/);
  return [...alone.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '').slice(1);
}

test('every command is one that svc has, with flags and settings that it has', () => {
  let count = 0;
  for (const page of GUIDES) {
    for (const line of commandsOf(page)) {
      const check = (name: keyof typeof SPECS, rest: readonly string[]): void => {
        const needed = (SPECS[name].arguments ?? []).filter(({ required }) => required).length;
        // A command that is only mentioned has no arguments.
        if (rest.length === 0 && needed > 0) return;
        const [first] = Object.values(parse(name, SPECS[name], rest).args);
        if (name.startsWith('config ') && typeof first === 'string') checkSettingName(first);
      };
      try {
        dispatch(wordsOf(line), { version: () => undefined, help: () => undefined, command: check });
      } catch (error) {
        throw new Error(`${page}: ${line}: ${String(error)}`, { cause: error });
      }
      count += 1;
    }
  }
  assert.ok(count > 40, `${String(count)} commands`);
});

test('every setting that a page sets takes the value', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-guides-'));
  const configFile = join(folder, 'config.json');
  const refused: string[] = [];
  let count = 0;
  try {
    for (const page of PAGES) {
      const set = /\bsvc config set\s+([a-z][^\s`]*)\s+(?:'([^']*)'|"([^"]*)"|([^\s`]+))/g;
      for (const [command, name = '', single, double, bare] of read(page).matchAll(set)) {
        count += 1;
        await setSetting({ configFile }, name, single ?? double ?? bare ?? '').catch((error: unknown) => {
          refused.push(`${page}: ${command}: ${String(error)}`);
        });
        rmSync(configFile, { force: true });
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  assert.equal(refused, []);
  assert.ok(count > 12, `${String(count)} commands`);
});

test('every setting that a guide names exists', () => {
  const sections = new Set(settingNames().map((name) => name.split('.')[0]));
  let count = 0;
  for (const page of GUIDES) {
    for (const [, name = '', section] of proseOf(page).matchAll(/`(([a-z]+)(?:\.\w+)+)`/g)) {
      if (!sections.has(section)) continue;
      count += 1;
      assert.not.throws(() => {
        checkSettingName(name);
      }, `${page}: ${name}`);
    }
  }
  assert.ok(count > 5, `${String(count)} names`);
});

/** As GitHub makes them. */
function anchorsOf(page: string): string[] {
  const headings = [...proseOf(page).matchAll(/^#+ (.+)$/gm)].map(([, title = '']) => title);
  return headings.map((title) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('every link between our pages leads to a file and a heading', () => {
  const broken: string[] = [];
  for (const page of PAGES) {
    for (const [, target = ''] of proseOf(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? page : join(dirname(page), path);
      if (!existsSync(join(root, file))) broken.push(`${page}: ${target}: no such file`);
      else if (anchor !== undefined && !anchorsOf(file).includes(anchor))
        broken.push(`${page}: ${target}: no such heading`);
    }
  }
  assert.equal(broken, []);
});

test('the index of the documentation names every page', () => {
  const index = read('docs/README.md');
  for (const page of [...pagesIn('docs'), ...pagesIn('docs/guides')].filter((path) => path !== 'docs/README.md'))
    assert.ok(index.includes(`(${page.slice('docs/'.length)})`), `${page} is not in docs/README.md`);
});

test.run();
