/**
 * No file on disk may block the daemon, crash it, or leave a cached failure behind. The calls that could do so are
 * allowed in a few listed places only.
 */
import ts from 'typescript';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { read, trackedFiles } from './source-files.ts';

const sources = trackedFiles().filter((path) => path.startsWith('src/') && path.endsWith('.ts'));

interface Call {
  /** Name of the function: `mkdir`, `openSync`. */
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

/** Files that may block the whole daemon with synchronous calls, each with the reason. */
const MAY_WAIT: Readonly<Record<string, string>> = {
  'src/daemon/lock.ts': 'at startup, and when the socket is bound again; every error is caught there',
  'src/daemon/reload.ts': 'a user requested the reload and sees the error',
  'src/log/log.ts': 'standard error',
  'src/log/log-file.ts': 'at process exit, with every error caught',
};

test('the daemon, the log and the ledger make no synchronous file calls', () => {
  const found = calls
    .filter(({ path, name }) => /^src\/(daemon|log|usage)\//.test(path) && name.endsWith('Sync'))
    .filter(({ path }) => !Object.hasOwn(MAY_WAIT, path));
  assert.equal(found.map(shown), []);
});

test('every file listed as an exception makes a synchronous call', () => {
  for (const path of Object.keys(MAY_WAIT))
    assert.ok(
      calls.some((call) => call.path === path && call.name.endsWith('Sync')),
      path,
    );
});

test('only files/make-directory.ts creates directories: it returns on every file system', () => {
  const found = calls.filter(({ path, text }) => !path.startsWith('src/files/') && /^mkdir(Sync)?\(/.test(text));
  assert.equal(found.map(shown), []);
});

/** Files outside files/ that open a path themselves, with the reason why a FIFO there is impossible or harmless. */
const OPENED: Readonly<Record<string, string>> = {
  'src/cli/asking/text-file.ts': 'named by the user, who may intend a FIFO',
  'src/cli/asking/media-files.ts': 'named by the user',
  'src/cli/machine/service.ts': 'a file of the service manager, in the foreground',
  'src/cli/machine/stop-daemon.ts': '/proc',
  'src/process/kernel-log.ts': 'opened with O_NONBLOCK',
  'src/home/private-file.ts': 'a descriptor opened by files/open-file.ts',
  'src/process/native-package.ts': 'a file of the package',
  'src/process/own-files.ts': 'a file of the package',
  'src/executable/unpack.ts': 'created exclusively by this code',
  'src/process/process-identity.ts': '/proc',
  'src/daemon/console/page-files.ts': 'a file of the package',
  'src/process/port-holder.ts': '/proc',
  'src/config/version.ts': 'a file of the package',
  'src/daemon/resources.ts': '/proc',
  'src/engine/gpu/cards.ts': '/sys, /proc and files of the system',
  'src/engine/gpu/installed.ts': 'created exclusively by svc, in its own directory',
  'src/engine/gpu/libraries.ts': 'a shared library that the dynamic linker opens, too',
  'src/engine/gpu/preparation.ts': 'a file of the system',
  'src/engine/gpu/vulkan-drivers.ts': 'files of the system',
  'src/gpu/install.ts': "named by the user's npm config, in the foreground",
  'src/gpu/unpack.ts': 'our own download, and files created exclusively by this code',
  'src/engine/gpu.ts': 'a file of the package',
  'src/process/host-memory.ts': '/proc and /sys',
  'src/engine/sandbox-trial.ts': '/etc/passwd and /proc, which the sandbox must deny',
  'src/models/store/adopted.ts': 'our own download, verified just before',
  'src/models/store/digest.ts': 'created exclusively by this code',
  'src/models/gguf/gguf.ts': 'opened with O_NONBLOCK',
  'src/models/pull/partial-file.ts': 'opened for reading and writing, which does not block on a FIFO',
  'src/models/store/quantize.ts': 'opened for reading and writing, which does not block on a FIFO',
  'src/service/installed.ts': 'a file of the service manager',
  'src/client/start-daemon.ts': 'a file of the process itself',
};

test('only files/open-file.ts opens files by path: it does not block on a FIFO', () => {
  const opens = /^(open|openSync|readFile|readFileSync|createReadStream|createWriteStream|appendFile|appendFileSync)$/;
  const found = calls.filter(({ path, name }) => !path.startsWith('src/files/') && opens.test(name));
  assert.equal(found.filter(({ path }) => !Object.hasOwn(OPENED, path)).map(shown), []);
});

test('every promise that the daemon does not await has a catch', () => {
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

/** Files that may cache a promise without clearing it on rejection (which makes it permanent), with the reason. */
const KEPT: Readonly<Record<string, string>> = {
  'src/backends/cloud/transport.ts': 'closing a transport, which is not retried',
  'src/daemon/grpc/listener.ts': 'a module import: Node itself caches the failure',
  'src/engine/gpu.ts': 'the process exits afterwards, and the result carries the failure',
};

test('a rejected promise is not cached', () => {
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

test('only protocol/foreign-text.ts decodes percent-encoding: it does not throw', () => {
  const found = sources.filter(
    (path) => path !== 'src/protocol/foreign-text.ts' && /decodeURI(Component)?\(/.test(read(path)),
  );
  assert.equal(found, []);
});

test.run();
