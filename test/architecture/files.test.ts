/**
 * Nothing that lies on the disk can hold the daemon up, end it, or be remembered as broken: the calls that would
 * let it are written in few places.
 */
import ts from 'typescript';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { read, trackedFiles } from './source-files.ts';

const sources = trackedFiles().filter((path) => path.startsWith('src/') && path.endsWith('.ts'));

interface Call {
  /** Of the function: `mkdir`, `openSync`. */
  readonly name: string;
  readonly path: string;
  readonly line: number;
  readonly text: string;
}

/** Calls of functions that the file imports from node:fs and node:fs/promises. */
function fileCalls(path: string): Call[] {
  const source = ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest, true);
  const names = new Set<string>();
  for (const statement of source.statements) {
    if (!ts.isImportDeclaration(statement) || !ts.isStringLiteral(statement.moduleSpecifier)) continue;
    if (!/^node:fs(\/promises)?$/.test(statement.moduleSpecifier.text)) continue;
    const bindings = statement.importClause?.namedBindings;
    assert.ok(bindings !== undefined && ts.isNamedImports(bindings), `${path}: import what is used of node:fs by name`);
    for (const each of bindings.elements) names.add(each.name.text);
  }
  const found: Call[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && names.has(node.expression.text)) {
      const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1;
      found.push({ name: node.expression.text, path, line, text: node.getText() });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const calls = sources.flatMap((path) => fileCalls(path));
const shown = ({ name, path, line }: Call): string => `${path}:${String(line)} ${name}`;

/** Waits of the whole daemon, each with why it may be. */
const MAY_WAIT: Readonly<Record<string, string>> = {
  'src/daemon/lock.ts': 'when it starts, and when it binds its socket again; every error is caught there',
  'src/daemon/reload.ts': 'a person has asked for it, and sees the error',
  'src/log/log.ts': 'standard error',
  'src/log/log-file.ts': 'the end of the process, with every error caught',
};

test('the daemon, the log and the ledger wait for no file synchronously', () => {
  const found = calls
    .filter(({ path, name }) => /^src\/(daemon|log|usage)\//.test(path) && name.endsWith('Sync'))
    .filter(({ path }) => !Object.hasOwn(MAY_WAIT, path));
  assert.equal(found.map(shown), []);
});

test('every place that may wait does', () => {
  for (const path of Object.keys(MAY_WAIT))
    assert.ok(
      calls.some((call) => call.path === path && call.name.endsWith('Sync')),
      path,
    );
});

test('directories are made by files/make-directory.ts, which ends on every file system', () => {
  const found = calls.filter(({ path, text }) => !path.startsWith('src/files/') && /^mkdir(Sync)?\(/.test(text));
  assert.equal(found.map(shown), []);
});

/** Opened by path elsewhere than in files/open-file.ts, each with why no FIFO can lie there. */
const OPENED: Readonly<Record<string, string>> = {
  'src/cli/commit.ts': 'of the checkout',
  'src/cli/doctor/machine-checks.ts': 'of the package',
  'src/cli/format-file.ts': 'named by a person, who may mean a FIFO',
  'src/cli/images.ts': 'named by a person',
  'src/cli/service/definition.ts': 'of the service manager, in the foreground',
  'src/cli/stop.ts': '/proc',
  'src/config/catalogue.ts': 'of the package',
  'src/config/credentials-file.ts': 'a descriptor that files/open-file.ts has opened',
  'src/config/kernel-log.ts': 'opened with O_NONBLOCK',
  'src/config/key-file.ts': 'a descriptor that files/open-file.ts has opened',
  'src/config/process-identity.ts': '/proc',
  'src/config/version.ts': 'of the package',
  'src/daemon/resources.ts': '/proc',
  'src/engine/gpu-bus.ts': '/sys',
  'src/engine/gpu.ts': 'of the package',
  'src/engine/host-memory.ts': '/proc and /sys',
  'src/engine/sandbox-trial.ts': '/etc/passwd and /proc, which it may not read',
  'src/models/adopted.ts': 'a download of ours that has just been checked',
  'src/models/digest.ts': 'made by itself, where nothing may lie',
  'src/models/gguf.ts': 'opened with O_NONBLOCK',
  'src/models/pull/catalogue.ts': 'of the package',
  'src/models/pull/partial-file.ts': 'opened to read and write, which waits for nothing',
  'src/models/quantize.ts': 'opened to read and write, which waits for nothing',
  'src/service/installed.ts': 'of the service manager',
  'src/client/start-daemon.ts': 'of the process',
};

test('files are opened by files/open-file.ts, which waits for no FIFO', () => {
  const opens = /^(open|openSync|readFile|readFileSync|createReadStream|createWriteStream|appendFile|appendFileSync)$/;
  const found = calls.filter(({ path, name }) => !path.startsWith('src/files/') && opens.test(name));
  assert.equal(found.filter(({ path }) => !Object.hasOwn(OPENED, path)).map(shown), []);
});

test('nothing in the daemon is started and left without a catch', () => {
  const found = sources
    .filter(
      (path) =>
        /^src\/(daemon|log|usage)\//.test(path) &&
        !path.startsWith('src/daemon/grpc/') &&
        !path.startsWith('src/daemon/http/'),
    )
    .flatMap((path) =>
      read(path)
        .split('\n')
        .map((text, index) => ({ text, place: `${path}:${String(index + 1)}` }))
        .filter(
          ({ text }) =>
            /\bvoid (?!0\b)[\w#.]+[.(]/.test(text) && !text.includes('.catch(') && !text.includes('=> void'),
        ),
    );
  assert.equal(found, []);
});

/** A promise that is kept and may be rejected is rejected for ever; each with why it may be. */
const KEPT: Readonly<Record<string, string>> = {
  'src/backends/cloud/transport.ts': 'the end of a transport, which has no second try',
  'src/daemon/grpc/listener.ts': 'a module: Node itself remembers one that cannot be loaded',
  'src/engine/gpu.ts': 'a process that ends after it; what is wrong is in the result',
};

test('a rejected promise is not kept', () => {
  const promises = /\?\?=\s*(?:await )?(?:import\(|this\.#(?:load|read|remote|dispatchers)\b|examine|\w+Async)/;
  const found = sources.flatMap((path) => {
    const text = read(path);
    return [...text.matchAll(/[^\n]*\?\?=[^;]*;/g)]
      .map(([statement]) => statement)
      .filter(
        (statement) =>
          promises.test(statement) && !/\.(catch|finally)\(/.test(statement) && !/\?\?=\s*await /.test(statement),
      )
      .map((statement) => ({ path, statement: statement.trim() }));
  });
  assert.equal(
    found.filter(({ path }) => !Object.hasOwn(KEPT, path)),
    [],
  );
});

test('percent-encoding is taken off by protocol/foreign-text.ts, which does not throw', () => {
  const found = sources.filter(
    (path) => path !== 'src/protocol/foreign-text.ts' && /decodeURI(Component)?\(/.test(read(path)),
  );
  assert.equal(found, []);
});

test.run();
