/** What `import … from 'svc-runtime'` loads, and its types. Reads dist/. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { compileApplication } from './application.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Prints the exports of the package, and the files that it and a request of each kind load. */
const LOADING = `
  import { Session } from 'node:inspector';
  const session = new Session();
  session.connect();
  const loaded = [];
  session.on('Debugger.scriptParsed', ({ params }) => loaded.push(params.url));
  session.post('Debugger.enable');
  const { Client, ...others } = await import('svc-runtime');
  const codes = [];
  for (const client of [new Client({ socketPath: '/nonexistent/svc.sock' }), new Client({ baseUrl: 'https://127.0.0.1:9' })])
    for (const ask of [() => client.generate({ prompt: 'x' }).result(), () => client.embed({ input: 'x' }),
      () => client.rerank({ query: 'x', documents: ['y'] }), () => client.models(), () => client.health()])
      await ask().catch((error) => codes.push(error.code));
  const { default: manifest } = await import('svc-runtime/package.json', { with: { type: 'json' } });
  const files = loaded.filter((url) => url.startsWith('file:'));
  console.log(JSON.stringify({ exports: ['Client', ...Object.keys(others)], files, codes, name: manifest.name }));
`;

interface Loading {
  readonly exports: readonly string[];
  readonly files: readonly string[];
  readonly codes: readonly string[];
  readonly name: string;
}

test('the package exports the client and its error, and loads no library and nothing of the daemon', async () => {
  // The package imports itself by name, as it does an application.
  const args = ['--no-warnings', '--input-type=module', '--eval', LOADING];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT });
  const { exports, files, codes, name } = JSON.parse(stdout) as Loading;
  assert.equal(exports, ['Client', 'SvcError']);
  assert.equal(codes, Array(10).fill('DAEMON_NOT_RUNNING'));
  assert.is(name, 'svc-runtime');
  assert.ok(files.some((file) => file.endsWith('/dist/client/index.js')));
  const modules = files.map((url) => fileURLToPath(url).slice(ROOT.length)).flatMap(modulesIn);
  // Also shows that the bundler still names its modules.
  assert.ok(modules.includes('src/client/client.ts'));
  assert.equal(modules.filter(isForeign), []);
});

test('nothing else of the package can be imported', async () => {
  const script = "await import('svc-runtime/dist/daemon/main.js').catch(({ code }) => console.log(code))";
  const args = ['--input-type=module', '--eval', script];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT });
  assert.is(stdout.trim(), 'ERR_PACKAGE_PATH_NOT_EXPORTED');
});

test('a strict application and the programs of the documentation compile, and mistakes are found', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-app-'));
  try {
    const programs = (await Promise.all(['README.md', 'docs/client.md'].map(programsIn))).flat();
    assert.is(programs.length, 3);
    assert.equal(await compileApplication(folder, ROOT, programs), []);
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** The modules whose code is in a file of dist/; the bundler names each in a comment. Of other files, their own name. */
function modulesIn(path: string): readonly string[] {
  if (!path.startsWith('dist/')) return [path];
  const modules = [...readFileSync(join(ROOT, path), 'utf8').matchAll(/^\/\/ ((?:src|node_modules)\/.*)$/gm)];
  return modules.map(([, name = '']) => name);
}

function isForeign(path: string): boolean {
  return !/^(\[eval\d+\]|package\.json|src\/(client|protocol(\/streams)?|files|home|process)\/[\w-]+\.ts)$/.test(path);
}

/** The programs on a page of the documentation that import the package. */
async function programsIn(page: string): Promise<readonly string[]> {
  const text = await readFile(join(ROOT, page), 'utf8');
  const blocks = [...text.matchAll(/^```[jt]s\n(.*?)^```$/gms)].map(([, code = '']) => code);
  return blocks.filter((code) => code.includes("from 'svc-runtime'"));
}

test.run();
