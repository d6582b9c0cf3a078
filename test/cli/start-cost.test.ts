/** Each command loads only the modules that it needs: follows its static imports through all files. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import ts from 'typescript';
import { posix } from 'node:path';
import { read } from '../architecture/source-files.ts';

/** Modules loaded together with `entry`, without `import()` calls and type-only imports. */
function loadedWith(entry: string): Set<string> {
  const loaded = new Set<string>();
  const visit = (path: string): void => {
    if (loaded.has(path)) return;
    loaded.add(path);
    if (!path.startsWith('src/')) return;
    for (const statement of ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest).statements) {
      const isImport =
        ts.isImportDeclaration(statement) && statement.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword;
      const isExport =
        ts.isExportDeclaration(statement) && !statement.isTypeOnly && statement.moduleSpecifier !== undefined;
      if (!isImport && !isExport) continue;
      const { text } = statement.moduleSpecifier as ts.StringLiteral;
      visit(text.startsWith('.') ? posix.join(posix.dirname(path), text) : text);
    }
  };
  visit(entry);
  return loaded;
}

const outside = (loaded: Set<string>, allowed: RegExp): string[] => [...loaded].filter((path) => !allowed.test(path));

test('the entry loads the parser, the list of commands and the output module, but no command', () => {
  const loaded = loadedWith('src/cli/main.ts');
  assert.ok(loaded.has('src/cli/parse.ts'));
  assert.equal(
    outside(
      loaded,
      /^(sade|node:[\w/]+|src\/cli\/(main|parse|aliases|commands|groups|terminal\/output)\.ts|src\/process\/environment\.ts|src\/files\/(svc-error|why)\.ts|src\/protocol\/(errors|given|suggest)\.ts)$/,
    ),
    [],
  );
});

test('run loads the client and the paths, but no library, store or schema', () => {
  const loaded = loadedWith('src/cli/commands/run.ts');
  assert.ok(loaded.has('src/client/client.ts'));
  assert.equal(
    outside(
      loaded,
      /^(node:[\w/]+|src\/client\/[\w-]+\.ts|src\/cli\/([\w-]+\/)?[\w-]+\.ts|src\/home\/(paths|home|running-socket)\.ts|src\/process\/(environment|own-files|own-program|process-identity)\.ts|src\/config\/version\.ts|src\/net\/silence-timer\.ts|src\/files\/[\w-]+\.ts|src\/log\/format\.ts|src\/protocol\/(media\/media-type|model\/named|streams\/ndjson|[\w-]+)\.ts)$/,
    ),
    [],
  );
});

test('only serve loads the daemon, and only by import()', () => {
  for (const command of [
    'start',
    'stop',
    'status',
    'health',
    'logs',
    'version',
    'run',
    'doctor',
    'serve',
    'model/list',
    'model/add',
    'chat',
    'ps',
    'bench',
    'completion',
    'config/set',
  ]) {
    const loaded = [...loadedWith(`src/cli/commands/${command}.ts`)];
    assert.equal(
      loaded.filter((path) => /^(pino|src\/(daemon|backends|routing)\/)/.test(path)),
      [],
      command,
    );
  }
});

test('only modules that use gRPC load it, and none at startup', () => {
  const grpc = /^(@grpc\/|grpc-health-check|protobufjs)/;
  for (const entry of [
    'src/cli/commands/health.ts',
    'src/cli/commands/status.ts',
    'src/cli/commands/run.ts',
    'src/daemon/main.ts',
  ]) {
    assert.equal(
      [...loadedWith(entry)].filter((path) => grpc.test(path)),
      [],
      entry,
    );
  }
  for (const entry of ['src/client/grpc-health.ts', 'src/daemon/grpc/server.ts']) {
    assert.ok(
      [...loadedWith(entry)].some((path) => grpc.test(path)),
      entry,
    );
  }
});

test.run();
