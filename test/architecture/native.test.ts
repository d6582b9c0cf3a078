/**
 * Includes point one way. The table `native` in layers.json says for each folder of native/ what it may include besides
 * itself; the deepest folder that a file lies in counts. Two foreign APIs have a place each: Node-API native/binding,
 * libllama native/engine/llama.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { read, trackedFiles } from './source-files.ts';

const NODE_API = /^(napi|node_api|js_native_api|node|v8|uv)\.h$/;
const LIBLLAMA =
  /^(llama(-cpp)?|llama-.*|ggml(-.*)?|gguf|common|chat|sampling|fit|json-schema-to-grammar|json|log|speculative)\.h(pp)?$/;

const { native: ROOMS } = JSON.parse(read('test/architecture/layers.json')) as { native: Record<string, string[]> };
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

test('libllama stays in native/engine/llama and the tests', () => {
  const files = including(LIBLLAMA);
  assert.ok(files.some((path) => path.startsWith('native/engine/llama/')));
  assert.equal(
    files.filter((path) => !/^native\/(engine\/llama|test)\//.test(path)),
    [],
  );
});

/** The deepest folder of the table that a path below native/ lies in. */
function roomOf(path: string): string | undefined {
  return Object.keys(ROOMS)
    .filter((room) => path.startsWith(`${room}/`))
    .sort((a, b) => b.length - a.length)[0];
}

test('every file lies in a room, and no room is a heap', () => {
  const counts = new Map<string, number>();
  for (const path of sources) {
    if (path === 'native/addon.cc' || path.startsWith('native/test/')) continue;
    const room = roomOf(path.slice('native/'.length));
    assert.ok(room !== undefined, path);
    assert.is(path.split('/').slice(1, -1).join('/'), room, `${path} lies below the room that it is counted to`);
    counts.set(room, (counts.get(room) ?? 0) + (path.endsWith('.cc') ? 1 : 0));
  }
  assert.equal(
    [...counts].filter(([, pairs]) => pairs > 20),
    [],
  );
  assert.equal([...counts.keys()].sort(), Object.keys(ROOMS).sort());
});

test('includes point one way', () => {
  const wrong: string[] = [];
  for (const path of sources) {
    const room = roomOf(path.slice('native/'.length));
    if (room === undefined) continue;
    for (const [, name = ''] of read(path).matchAll(/^\s*#\s*include\s*"([^"]+)"/gm)) {
      const target = roomOf(name);
      if (target !== undefined && target !== room && !ROOMS[room]?.includes(target)) wrong.push(`${path}: ${name}`);
    }
  }
  assert.equal(wrong, []);
});

test('the table has no circle', () => {
  const below = (room: string, path: readonly string[]): void => {
    assert.not.ok(path.includes(room), [...path, room].join(' includes '));
    for (const next of ROOMS[room] ?? []) below(next, [...path, room]);
  };
  for (const room of Object.keys(ROOMS)) below(room, []);
});

test('the tests lie in the rooms of what they test', () => {
  const rooms = new Set([...Object.keys(ROOMS).map((room) => room.replace(/^engine\//, '')), 'support']);
  const strays = sources.filter(
    (path) => path.startsWith('native/test/') && !rooms.has(path.split('/').slice(2, -1).join('/')),
  );
  assert.equal(strays, []);
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
  const exposed = ['engine', 'base/request', 'base/status', 'llama/devices'].filter((name) =>
    /\b(llama|ggml|gguf|napi)_\w+|\bNapi::/.test(code(name)),
  );
  assert.equal(exposed, []);
});

test.run();
