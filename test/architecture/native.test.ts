/** The C++ side has two folders that know a foreign API each, and they do not overlap. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { read, trackedFiles } from './source-files.ts';

const NODE_API = /^(napi|node_api|js_native_api|node|v8|uv)\.h$/;
const LIBLLAMA =
  /^(llama(-cpp)?|llama-.*|ggml(-.*)?|gguf|common|chat|sampling|fit|json-schema-to-grammar|json|log|speculative)\.h(pp)?$/;

const sources = trackedFiles().filter((path) => /^native\/.*\.(cc|h)$/.test(path));

/** Paths of the files that include a header whose last part matches. */
function including(header: RegExp): string[] {
  return sources.filter((path) =>
    [...read(path).matchAll(/^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")/gm)].some(([, system, quoted]) => {
      const name = system ?? quoted ?? '';
      return !name.startsWith('engine/') && !name.startsWith('binding/') && header.test(name.split('/').at(-1) ?? '');
    }),
  );
}

test('Node-API stays in native/binding and the module entry', () => {
  const files = including(NODE_API);
  assert.ok(files.length > 0);
  assert.equal(
    files.filter((path) => !path.startsWith('native/binding/') && path !== 'native/addon.cc'),
    [],
  );
});

test('libllama stays in native/engine and its tests', () => {
  const files = including(LIBLLAMA);
  assert.ok(files.some((path) => path.startsWith('native/engine/')));
  assert.equal(
    files.filter((path) => !/^native\/(engine|test|bench)\//.test(path)),
    [],
  );
});

test('native/kernels needs nothing but the compiler', () => {
  const files = sources.filter((path) => path.startsWith('native/kernels/'));
  assert.ok(files.length > 0);
  for (const path of files) {
    for (const [, quoted] of read(path).matchAll(/^\s*#\s*include\s*"([^"]+)"/gm)) {
      assert.match(quoted ?? '', /^kernels\//, path);
    }
  }
});

test("the engine's public headers name no foreign type", () => {
  const code = (name: string) => read(`native/engine/${name}.h`).replace(/\/\/.*$/gm, '');
  const exposed = ['engine', 'devices', 'status'].filter((name) =>
    /\b(llama|ggml|gguf|napi)_\w+|\bNapi::/.test(code(name)),
  );
  assert.equal(exposed, []);
});

test.run();
