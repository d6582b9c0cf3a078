/**
 * Includes go only in the allowed directions. The table `native` in layers.json lists for each folder of native/ what
 * it may include besides itself; the deepest listed folder of a file counts. Two foreign APIs are confined to one
 * folder each: Node-API to native/binding, libllama to native/engine/llama.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerateRequestSchema, SamplingSchema } from '../../src/protocol/generate.ts';
import { cyclesOf, deepestOf, read, trackedFiles } from './source-files.ts';

const NODE_API = /^(napi|node_api|js_native_api|node|v8|uv)\.h$/;
const LIBLLAMA =
  /^(llama(-cpp)?|llama-.*|ggml(-.*)?|gguf|common|chat|sampling|fit|json-schema-to-grammar|json|log|mtmd|speculative)\.h(pp)?$/;

const { native: ROOMS } = JSON.parse(read('test/architecture/layers.json')) as { native: Record<string, string[]> };
const sources = trackedFiles().filter((path) => /^native\/.*\.(cc|h)$/.test(path));

/** Paths of the files that include a header whose base name matches. */
function including(header: RegExp): string[] {
  return sources.filter((path) =>
    [...read(path).matchAll(/^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")/gm)].some(([, system, quoted]) => {
      const name = system ?? quoted ?? '';
      return !name.startsWith('engine/') && !name.startsWith('binding/') && header.test(name.split('/').at(-1) ?? '');
    }),
  );
}

test('only native/binding and the module entry include Node-API', () => {
  const files = including(NODE_API);
  assert.ok(files.length > 0);
  assert.equal(
    files.filter((path) => !path.startsWith('native/binding/') && path !== 'native/addon.cc'),
    [],
  );
});

test('only native/engine/llama and the tests include libllama', () => {
  const files = including(LIBLLAMA);
  assert.ok(files.some((path) => path.startsWith('native/engine/llama/')));
  assert.equal(
    files.filter((path) => !/^native\/(engine\/llama|test)\//.test(path)),
    [],
  );
});

/** Returns the names that a file includes in quotes. */
function quotedIncludesOf(path: string): string[] {
  return [...read(path).matchAll(/^\s*#\s*include\s*"([^"]+)"/gm)].map(([, name = '']) => name);
}

/** Deepest folder of the table that contains a path below native/. */
function roomOf(path: string): string | undefined {
  return deepestOf(Object.keys(ROOMS), path);
}

test('every file belongs to a listed folder, and no folder has more than 20 pairs of files', () => {
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

test('includes go only in the allowed directions', () => {
  const wrong: string[] = [];
  for (const path of sources) {
    const room = roomOf(path.slice('native/'.length));
    if (room === undefined) continue;
    for (const name of quotedIncludesOf(path)) {
      const target = roomOf(name);
      if (target !== undefined && target !== room && !ROOMS[room]?.includes(target)) wrong.push(`${path}: ${name}`);
    }
  }
  assert.equal(wrong, []);
});

test('the table has no cycle', () => {
  assert.equal(cyclesOf(new Map(Object.entries(ROOMS))), []);
});

test('each native test lies in the folder named after the code that it tests', () => {
  const rooms = new Set([...Object.keys(ROOMS).map((room) => room.replace(/^engine\//, '')), 'support']);
  const strays = sources.filter(
    (path) => path.startsWith('native/test/') && !rooms.has(path.split('/').slice(2, -1).join('/')),
  );
  assert.equal(strays, []);
});

/** Tested from JavaScript (test/native): nothing there runs without Node. */
const NEEDS_NODE = /^native\/(?:addon\.cc|binding\/)/;

/** Path of a unit's test. A kernel has a file for each instruction set or processor, and one test of all of them. */
function testOf(path: string): string {
  const unit = path
    .replace(/^native\/(?:engine\/(?=.*\/))?/, '')
    .replace(/(?:_avx2|_avx512|_neon|_x64|_arm64)?\.cc$/, '');
  return `native/test/${unit}_test.cc`;
}

test('every unit has a test of its name in the folder that mirrors its own, and every test is built', () => {
  const units = sources.filter((path) => /^native\/(?!test\/).*\.cc$/.test(path) && !NEEDS_NODE.test(path));
  assert.ok(units.length > 100);
  assert.equal(
    units.filter((path) => !sources.includes(testOf(path))),
    [],
  );
  const built = read('native/test/CMakeLists.txt').matchAll(/svc_(?:model_)?test\((\S+?)[ )]/g);
  const paths = new Set([...built].map(([, path = '']) => `native/test/${path}.cc`));
  assert.equal(
    sources.filter((path) => path.startsWith('native/test/') && path.endsWith('_test.cc') && !paths.has(path)),
    [],
  );
});

const FILE_LINES = 450;
const FUNCTION_LINES = 60;

/** Code of a file without comments, preprocessor lines and text in quotes: every brace that is left is code. */
function codeOf(path: string): string {
  const left = /\/\/.*|\/\*[^]*?\*\/|^\s*#.*|R"(\w*)\([^]*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'/gm;
  return read(path).replace(left, (part) => (/^[R"']/.test(part) ? part.replace(/[^\n]/g, '_') : ''));
}

function linesIn(code: string): number {
  return code.split('\n').filter((line) => line.trim() !== '').length;
}

/** Lines of each function and lambda of a file, by its first line. */
function functionsOf(path: string): { name: string; lines: number }[] {
  const code = codeOf(path);
  const open: { name: string; start: number }[] = [];
  const found: { name: string; lines: number }[] = [];
  let since = 0;
  for (const { 0: mark, index } of code.matchAll(/[{};]/g)) {
    if (mark === '{') open.push({ name: code.slice(since, index).trim(), start: since });
    const block = mark === '}' ? open.pop() : undefined;
    if (block !== undefined && isFunction(block.name))
      found.push({ name: block.name, lines: linesIn(code.slice(block.start, index + 1)) });
    // The parts of a `for` are one statement.
    if (mark !== ';' || !/\([^)]*$/.test(code.slice(since, index))) since = index + 1;
  }
  assert.equal(open, [], `${path}: a brace is open`);
  return found;
}

/** True if a block with this text before its brace is a body: not a namespace, a type, a statement or a value. */
function isFunction(before: string): boolean {
  return (
    /\)[^()=]*$/.test(before) &&
    !/^(?:\}?\s*)(?:else|if|for|while|do|switch|namespace|class|struct|enum|union)\b/.test(before)
  );
}

test('no file and no function of native/ is too long', () => {
  const long = sources
    .flatMap((path) => [
      { name: path, lines: linesIn(codeOf(path)), most: FILE_LINES },
      ...functionsOf(path).map((each) => ({ ...each, name: `${path}: ${each.name}`, most: FUNCTION_LINES })),
    ])
    .filter(({ lines, most }) => lines > most);
  assert.equal(long, []);
});

const CLASS_FIELDS = 20;

/** The text between the brace at `start` and the one that closes it. */
function blockAt(code: string, start: number): string {
  let depth = 0;
  for (let i = start; i < code.length; i += 1) {
    if (code[i] === '{') depth += 1;
    if (code[i] === '}') depth -= 1;
    if (depth === 0) return code.slice(start + 1, i);
  }
  return code.slice(start + 1);
}

/** The declarations in a block, without the bodies of functions and the values of fields. */
function declarationsIn(block: string): string[] {
  let rest = block;
  for (let inner = /\{[^{}]*\}/; inner.test(rest);) rest = rest.replace(inner, '\u0000');
  return rest
    .replace(/\)[^;()\u0000]*\u0000/g, ');')
    .split(';')
    .map((text) => text.replace(/\b(public|private|protected)\s*:/g, '').trim());
}

/** Number of the non-static data members of each class, by its name. */
function memberCountsOf(path: string): [string, number][] {
  const code = codeOf(path);
  return [...code.matchAll(/\b(?:class|struct) (\w+)[^;{()]*\{/g)].map((match) => {
    const members = declarationsIn(blockAt(code, match.index + match[0].length - 1)).filter((text) => {
      if (/^(using|static|friend|enum|struct|class|template|explicit|virtual|constexpr)\b/.test(text)) return false;
      let type = text.replace(/=[^]*/, '');
      for (let inner = /<[^<>]*>/; inner.test(type);) type = type.replace(inner, '');
      return !type.includes('(') && /\S\s+[*&]?\w/.test(type.trim());
    });
    return [`${path}: ${match[1] ?? ''}`, members.length];
  });
}

test('no class of native/ has too many fields, except the values that are lists of fields', () => {
  const counts = sources.filter((path) => !path.startsWith('native/engine/types/')).flatMap(memberCountsOf);
  assert.ok(counts.some(([name, count]) => name.endsWith(': Generation') && count > 15));
  const large = counts.filter(([, count]) => count > CLASS_FIELDS);
  assert.equal(large, []);
});

test('no line of native/ is wider than 100 columns: clang-format does not wrap comments', () => {
  const wide = sources.filter((path) =>
    read(path)
      .split('\n')
      .some((line) => [...line].length > 100),
  );
  assert.equal(wide, []);
});

test('native/kernels includes only its own and system headers', () => {
  const files = sources.filter((path) => path.startsWith('native/kernels/'));
  assert.ok(files.length > 0);
  for (const path of files) {
    for (const name of quotedIncludesOf(path)) assert.match(name, /^kernels\//, path);
  }
});

test("the engine's public headers name no foreign type", () => {
  const types = sources.filter((path) => path.startsWith('native/engine/types/') && path.endsWith('.h'));
  assert.ok(types.length > 5);
  const faces = ['engine', 'base/status', 'llama/devices'].map((name) => `native/engine/${name}.h`);
  const exposed = [...faces, ...types].filter((path) =>
    /\b(llama|ggml|gguf|napi)_\w+|\bNapi::/.test(read(path).replace(/\/\/.*$/gm, '')),
  );
  assert.equal(exposed, []);
});

/** Returns the members that a struct of the engine lists in its table of fields. */
function fieldsOf(struct: string): string[] {
  const code = sources
    .filter((path) => path.startsWith('native/engine/types/'))
    .map(read)
    .join('');
  const table = new RegExp(`SVC_FIELDS\\(${struct},(.*?)\\)\\)\\n`, 's').exec(code)?.[1] ?? '';
  return [...table.matchAll(/\((\w+)/g)].map(([, name = '']) => name);
}

test('the engine reads every sampler setting of the protocol, under its name', () => {
  assert.equal(fieldsOf('SamplingParams').sort(), Object.keys(SamplingSchema.entries).sort());
  const added = [
    'id',
    'chat',
    'prompt',
    'prompt_tokens',
    'infill',
    'continuation',
    'reuse_prefix',
    'prefix_group',
    'share',
    'own_prefixes',
    'grammar',
  ];
  const known = new Set([...Object.keys(GenerateRequestSchema.entries), ...added]);
  assert.ok(fieldsOf('GenerationRequest').length > added.length);
  assert.equal(
    fieldsOf('GenerationRequest').filter((name) => !known.has(name)),
    [],
  );
});

test.run();
