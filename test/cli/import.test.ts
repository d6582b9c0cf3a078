/** `svc model import`: models of other programs, registered where they lie; hostile stores refused file by file. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import type { ImportRecord } from '../../src/protocol/model/import.ts';
import type { GenerateResult } from '../../src/protocol/generate.ts';
import type { ModelRecord } from '../../src/protocol/records.ts';
import { assertExit } from '../support/exit.ts';
import { unless } from '../support/skip.ts';
import { splitGguf } from '../support/split-gguf.ts';
import { svc, type SvcResult } from '../support/svc.ts';
import { svcSuite, type SvcContext } from '../support/svc-suite.ts';
import { copyInto, MODELS, sha256, write, writeHub, writeOllama } from './foreign-stores.ts';

const test = svcSuite('svc model import');
const LIBRARY = 'registry.ollama.ai/library';
const GEMMA = join(MODELS, 'tiny-gemma.gguf');
const LLAMA = join(MODELS, 'tiny-llama.gguf');
const QWEN = join(MODELS, 'tiny-qwen2.gguf');
const VISION = join(MODELS, 'tiny-qwen2vl.gguf');
const PROJECTOR = join(MODELS, 'projectors', 'qwen2-vl.gguf');
const noProcfs = existsSync('/proc/self') ? undefined : 'there is no directory in which even root may not write';
const ADAPTER = join(MODELS, 'adapters', 'llama-attention.gguf');

interface Store {
  readonly ollama: string;
  readonly lmstudio: string;
  readonly hub: string;
  svc(...args: string[]): Promise<SvcResult>;
  /** As `svc`, with more variables. */
  svcWith(more: Readonly<Record<string, string>>, ...args: string[]): Promise<SvcResult>;
  /** Runs the import with --json. */
  take(...args: string[]): Promise<ImportRecord>;
  show(model: string): Promise<ModelRecord>;
}

function storeIn({ home }: SvcContext): Store {
  const user = join(home.dir, 'user');
  const ollama = join(user, '.ollama', 'models');
  const env = {
    HOME: user,
    XDG_CACHE_HOME: undefined,
    OLLAMA_MODELS: ollama,
    HF_HOME: undefined,
    HF_HUB_CACHE: undefined,
  };
  const svcWith: Store['svcWith'] = (more, ...args) => svc(args, { home, env: { ...env, ...more } });
  const run = (...args: string[]): Promise<SvcResult> => svcWith({}, ...args);
  const parsed = async <Value>(...args: string[]): Promise<Value> => {
    const { stdout, stderr } = await run(...args, '--json');
    assert.match(stdout, /^\{/, stderr);
    return JSON.parse(stdout) as Value;
  };
  return {
    ollama,
    lmstudio: join(user, '.lmstudio', 'models'),
    hub: join(user, '.cache', 'huggingface', 'hub'),
    svc: run,
    svcWith,
    take: (...args) => parsed<ImportRecord>('model', 'import', ...args),
    show: (model) => parsed<ModelRecord>('model', 'show', model),
  };
}

const states = ({ models }: ImportRecord): [string, string][] => models.map(({ id, state }) => [id, state]);
const reasons = ({ refused }: ImportRecord): string[] => refused.map(({ path, reason }) => `${path} ${reason}`);
/** Names, sizes and times of all files below a folder. */
const stateOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => {
    const { size, mtimeMs } = statSync(join(folder, name));
    return `${name} ${String(size)} ${String(mtimeMs)}`;
  });

test("Ollama's models keep their places, names and settings", async (context) => {
  const store = storeIn(context);
  const blobs = writeOllama(store.ollama, `${LIBRARY}/gemma/2b`, {
    model: { file: GEMMA },
    template: { text: '{{ .Prompt }}' },
    system: { text: 'Answer like a pirate.' },
    params: { text: '{"temperature":0.25,"stop":["<end>"],"num_ctx":512,"num_thread":4,"tfs_z":1,"wings":2}' },
    license: { text: 'MIT' },
  });
  writeOllama(store.ollama, `${LIBRARY}/gemma/latest`, { model: { file: GEMMA } });
  writeOllama(store.ollama, 'registry.ollama.ai/anna/llama/1b', { model: { file: LLAMA } });
  writeOllama(store.ollama, 'hf.co/acme/Q/Q8_0', { model: { file: QWEN } });
  const before = stateOf(store.ollama);

  const dry = await store.take('--from', 'ollama', '--dry-run');
  assert.ok(dry.models.every(({ state }) => state === 'planned'));
  assert.is(dry.models.length, 4);
  assert.is((await store.svc('model', 'list', '--json')).stdout.includes('gemma'), false);

  const record = await store.take('--from', 'ollama');
  assert.equal(states(record).sort(), [
    ['anna/llama:1b', 'imported'],
    ['gemma:2b', 'named'],
    ['gemma:latest', 'imported'],
    ['hf.co/acme/Q:Q8_0', 'imported'],
  ]);
  assert.equal(record.refused, []);
  const notes = record.models.find(({ id }) => id === 'gemma:2b')?.notes.join('\n') ?? '';
  assert.match(notes, /the template layer is not used/);
  assert.match(notes, /num_thread is skipped/);
  assert.match(notes, /tfs_z is not supported/);
  assert.match(notes, /wings is not known/);

  const { path, source, settings } = await store.show('gemma:latest');
  assert.equal([path, source, settings], [blobs['model'], 'ollama:gemma:latest', undefined]);
  const named = await store.show('gemma:2b');
  assert.is(named.from, 'gemma:latest');
  assert.equal(named.settings, {
    system: 'Answer like a pirate.',
    sampling: { temperature: 0.25 },
    stop: ['<end>'],
    context_length: 512,
  });
  assert.equal(stateOf(store.ollama), before, 'nothing of Ollama was written');
  assert.equal(
    states(await store.take('--from', 'ollama')).filter(([, state]) => state !== 'present'),
    [],
    'a second import changes nothing',
  );

  const answer = await store.svc('run', '--json', '--max-tokens', '4', 'gemma:2b', 'how', 'are', 'you');
  assertExit(answer, 0);
  assert.is((JSON.parse(answer.stdout) as GenerateResult).model, 'gemma:2b');
});

test('a blob that Ollama has removed is one message, with what to do', async (context) => {
  const store = storeIn(context);
  const blobs = writeOllama(store.ollama, `${LIBRARY}/gemma/latest`, { model: { file: GEMMA } });
  writeOllama(store.ollama, 'registry.ollama.ai/anna/llama/1b', { model: { file: LLAMA } });
  const before = stateOf(store.ollama);
  await store.take('--from', 'ollama');
  rmSync(blobs['model'] ?? '');
  const gone = await store.svc('run', 'gemma', 'hi');
  assertExit(gone, 1);
  assert.match(
    gone.stderr,
    /the model gemma:latest cannot be loaded: there is no file .*\nhint: Ollama may have removed/,
  );
  assert.match(gone.stderr, /svc model rm gemma:latest; to let svc keep a copy: svc model pull ollama:gemma:latest/);
  assert.is((await store.svc('model', 'rm', 'gemma:latest')).code, 0);
  assert.is((await store.svc('model', 'rm', 'anna/llama:1b')).code, 0);
  assert.equal(stateOf(store.ollama).length, before.length - 1, 'removing a model leaves the files of Ollama');
});

unless(noProcfs, test)('a model is registered with its settings or not at all', async (context) => {
  const store = storeIn(context);
  const params = { text: '{"temperature":0.25}' };
  writeOllama(store.ollama, `${LIBRARY}/gemma/latest`, { model: { file: GEMMA }, params });
  const failed = await store.svcWith({ SVC_CONFIG: '/proc/svc/config.json' }, 'model', 'import', '--from', 'ollama');
  assertExit(failed, 73);
  assert.match(failed.stderr, 'cannot write /proc/svc/config.json');
  assert.not.match((await store.svc('model', 'list', '--json')).stdout, 'gemma');

  assert.equal(states(await store.take('--from', 'ollama')), [['gemma:latest', 'imported']]);
  assert.equal((await store.show('gemma:latest')).settings, { sampling: { temperature: 0.25 } });
});

test('settings that the config has for a model are kept', async (context) => {
  const store = storeIn(context);
  const params = { text: '{"temperature":0.25}' };
  writeOllama(store.ollama, `${LIBRARY}/gemma/latest`, { model: { file: GEMMA }, params });
  await store.take('--from', 'ollama');
  assertExit(await store.svc('config', 'set', 'models.gemma:latest.sampling.temperature', '0.5'), 0);
  assertExit(await store.svc('model', 'rm', 'gemma'), 0);
  const { models } = await store.take('--from', 'ollama');
  assert.match(models[0]?.notes.join() ?? '', 'models.gemma:latest of the config is kept as it is');
  assert.equal((await store.show('gemma')).settings, { sampling: { temperature: 0.5 } });
});

test('a projector and an adapter of Ollama are used in place', async (context) => {
  const store = storeIn(context);
  writeOllama(store.ollama, `${LIBRARY}/see/latest`, { model: { file: VISION }, projector: { file: PROJECTOR } });
  writeOllama(store.ollama, `${LIBRARY}/bent/latest`, { model: { file: LLAMA }, adapter: { file: ADAPTER } });
  const record = await store.take('--from', 'ollama');
  assert.equal(reasons(record), []);
  const { projector } = await store.show('see');
  assert.ok(projector !== undefined);
  assert.is(projector.path, join(store.ollama, 'blobs', `sha256-${sha256(readFileSync(PROJECTOR))}`));
  assert.is(projector.digest, `sha256:${sha256(readFileSync(PROJECTOR))}`);
  const bent = await store.show('bent');
  assert.equal(
    bent.adapters?.map(({ id, path, error }) => [id, path.startsWith(store.ollama), error]),
    [['adapter', true, undefined]],
  );
  assert.equal(bent.settings?.lora, [{ id: 'adapter', scale: 1 }]);
  const answer = await store.svc('run', '--max-tokens', '4', 'bent', 'hi', 'there');
  assertExit(answer, 0);
  assert.is((await store.svc('model', 'verify')).code, 0);
  rmSync(projector.path);
  const gone = await store.svc('run', 'see', 'hi');
  assert.match(
    gone.stderr,
    /the model see:latest cannot be loaded: there is no file .*\nhint: Ollama may have removed/,
  );
});

test('LM Studio and the cache of the hub: repositories, parts, projectors, revisions', async (context) => {
  const store = storeIn(context);
  copyInto(GEMMA, join(store.lmstudio, 'acme', 'Gemma-GGUF', 'gemma-Q4_K_M.gguf'));
  copyInto(LLAMA, join(store.lmstudio, 'acme', 'Gemma-GGUF', 'gemma-Q8_0.gguf'));
  copyInto(VISION, join(store.lmstudio, 'acme', 'See-GGUF', 'see-Q8_0.gguf'));
  copyInto(PROJECTOR, join(store.lmstudio, 'acme', 'See-GGUF', 'mmproj-see-f16.gguf'));
  const parts = await splitGguf(QWEN, join(store.hub, '..', 'parts'), 'qwen-Q8_0', { count: 3 });
  const names = Object.fromEntries(parts.map((part) => [`sub/${part.split('/').at(-1) ?? ''}`, part]));
  const snapshot = writeHub(store.hub, 'acme/Qwen-GGUF', 'b'.repeat(40), { ...names, 'gemma-Q4_K_M.gguf': GEMMA });
  const old = writeHub(store.hub, 'acme/Qwen-GGUF', 'a'.repeat(40), { 'gemma-Q4_K_M.gguf': LLAMA });
  write(join(old, '..', '..', 'refs', 'main'), 'b'.repeat(40));

  const record = await store.take();
  assert.equal(reasons(record), []);
  assert.equal(
    record.models.map(({ id, state, same_as }) => [id, state, same_as]),
    [
      ['acme/Gemma-GGUF:Q4_K_M', 'imported', null],
      ['acme/Gemma-GGUF:Q8_0', 'imported', null],
      ['acme/See-GGUF:Q8_0', 'imported', null],
      ['acme/Qwen-GGUF:Q4_K_M', 'present', 'acme/Gemma-GGUF:Q4_K_M'],
      ['acme/Qwen-GGUF:Q8_0', 'imported', null],
      ['acme/Qwen-GGUF:Q4_K_M@aaaaaaaaaaaa', 'present', 'acme/Gemma-GGUF:Q8_0'],
    ],
  );
  const see = await store.show('acme/See-GGUF');
  assert.is(see.projector?.path, join(store.lmstudio, 'acme', 'See-GGUF', 'mmproj-see-f16.gguf'));
  const qwen = await store.show('acme/Qwen-GGUF:Q8_0');
  assert.is(qwen.path, join(snapshot, 'sub', 'qwen-Q8_0-00001-of-00003.gguf'));
  assert.is(qwen.source, 'hf:acme/Qwen-GGUF:sub/qwen-Q8_0-00001-of-00003.gguf');
  // Through links, by an engine in its sandbox.
  const answer = await store.svc('run', '--max-tokens', '4', 'acme/Qwen-GGUF:Q8_0', 'hi', 'there');
  assertExit(answer, 0);
  const text = await store.svc('model', 'import');
  assert.match(text.stdout, /^MODEL +SIZE +FROM +STATE\nacme\/Gemma-GGUF:Q4_K_M +\S+ \S+ +LM Studio +present/);
  assert.match(text.stdout, /\n0 registered, 6 here already, 0 refused\n$/);
});

test('a name that another model has is given with a number, and said', async (context) => {
  const store = storeIn(context);
  copyInto(LLAMA, join(store.lmstudio, 'acme', 'One', 'one-Q8_0.gguf'));
  writeHub(store.hub, 'acme/One', 'a'.repeat(40), { 'one-Q8_0.gguf': GEMMA });
  const dry = await store.take('--dry-run');
  assert.equal(
    dry.models.map(({ id }) => id),
    ['acme/One:Q8_0', 'acme/One:Q8_0-2'],
  );
  const { models } = await store.take();
  assert.equal(
    models.map(({ id }) => id),
    ['acme/One:Q8_0', 'acme/One:Q8_0-2'],
  );
  assert.equal(models[1]?.notes, ['the name acme/One:Q8_0 is taken']);
});

function hostileManifests(ollama: string): void {
  const manifests = join(ollama, 'manifests', LIBRARY);
  write(join(manifests, 'huge', 'latest'), ' '.repeat(1024 * 1024 + 1));
  write(join(manifests, 'nojson', 'latest'), '{"layers":');
  write(
    join(manifests, 'escape', 'latest'),
    JSON.stringify({
      layers: [{ mediaType: 'application/vnd.ollama.image.model', digest: 'sha256:../../../etc/passwd', size: 1 }],
    }),
  );
  write(join(ollama, 'manifests', 'stray'), '{}');
  mkdirSync(join(manifests, 'fifo'));
  execFileSync('mkfifo', [join(manifests, 'fifo', 'latest')]);
  symlinkSync(manifests, join(manifests, 'loop'));
  symlinkSync('round', join(manifests, 'fifo', 'round'));
  symlinkSync('/etc/passwd', join(manifests, 'fifo', 'out'));
}

test('hostile files are refused one by one; the rest is imported', async (context) => {
  const store = storeIn(context);
  writeOllama(store.ollama, `${LIBRARY}/good/latest`, { model: { file: GEMMA } });
  const { model: changed = '' } = writeOllama(store.ollama, `${LIBRARY}/changed/latest`, { model: { file: LLAMA } });
  const { model: short = '' } = writeOllama(store.ollama, `${LIBRARY}/short/latest`, { model: { file: QWEN } });
  const { model: missing = '' } = writeOllama(store.ollama, `${LIBRARY}/missing/latest`, { model: { file: VISION } });
  writeOllama(store.ollama, `${LIBRARY}/text/latest`, { model: { text: 'no model at all' } });
  writeOllama(store.ollama, `${LIBRARY}/tensors/latest`, { tensor: { text: 'x' } });
  const { system = '' } = writeOllama(store.ollama, `${LIBRARY}/liar/latest`, {
    model: { file: join(MODELS, 'tiny-gemma2.gguf') },
    system: { text: 'Be kind.' },
  });
  write(system, 'Be mean.');
  chmodSync(changed, 0o600);
  // The last byte of the weights: the header is the same.
  const bytes = readFileSync(changed);
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  write(changed, bytes);
  truncateSync(short, 4096);
  rmSync(missing);
  hostileManifests(store.ollama);
  const record = await store.take('--from', 'ollama');
  assert.equal(states(record).sort(), [
    ['good:latest', 'imported'],
    ['liar:latest', 'imported'],
  ]);
  const liar = record.models.find(({ id }) => id === 'liar:latest');
  assert.ok(liar !== undefined);
  assert.equal(liar.settings, {});
  assert.match(liar.notes.join(), /the system layer is not used: sha256:.* does not match its name/);
  const said = reasons(record).join('\n');
  for (const [what, why] of [
    ['huge/latest', 'more than the limit of 1048576'],
    ['nojson/latest', 'is not a valid manifest'],
    ['escape/latest', 'is not a valid manifest'],
    ['stray', 'is not at HOST/NAMESPACE/NAME/TAG'],
    ['fifo/latest', 'is not a regular file'],
    ['fifo/round', 'loop of links'],
    ['fifo/out', 'is a link out of'],
    ['loop', 'is a link to a folder'],
    ['short/latest', 'has a blob of another size'],
    ['missing/latest', 'has a blob that cannot be used: .* is missing'],
    ['text/latest', 'not a GGUF file'],
    ['tensors/latest', 'has no model that svc can run'],
    [changed, 'SHA-256 mismatch'],
  ] as const) {
    assert.match(said, new RegExp(`${what}.*${why}`));
  }
  assert.is(record.refused.length, 13);
});

test('links and files of another kind in the other two stores', async (context) => {
  const store = storeIn(context);
  const repo = join(store.lmstudio, 'acme', 'One');
  copyInto(GEMMA, join(repo, 'one-Q8_0.gguf'));
  write(join(repo, 'text-Q8_0.gguf'), 'no model at all');
  symlinkSync(LLAMA, join(repo, 'out-Q8_0.gguf'));
  symlinkSync('nowhere.gguf', join(repo, 'broken-Q8_0.gguf'));
  execFileSync('mkfifo', [join(repo, 'fifo-Q8_0.gguf')]);
  symlinkSync('..', join(repo, 'up'));
  const snapshot = writeHub(store.hub, 'acme/Two', 'a'.repeat(40), { 'two-Q8_0.gguf': QWEN });
  symlinkSync('../../../models--acme--Three/blobs/x', join(snapshot, 'three-Q8_0.gguf'));
  write(join(store.hub, 'models--acme--Three', 'blobs', 'x'), readFileSync(LLAMA));
  symlinkSync(store.lmstudio, join(store.hub, 'models--acme--Four'));
  const record = await store.take();
  assert.equal(states(record), [
    ['acme/One:Q8_0', 'imported'],
    ['acme/Two:Q8_0', 'imported'],
  ]);
  const said = reasons(record).join('\n');
  for (const why of [
    'out-Q8_0.gguf is a link out of',
    'broken-Q8_0.gguf is missing',
    'fifo-Q8_0.gguf is not a regular file',
    'up is a link to a folder',
    'text-Q8_0.gguf is not a GGUF file',
    'three-Q8_0.gguf is a link out of',
  ]) {
    assert.match(said, why);
  }
  assert.is(record.refused.length, 6);
  const text = await store.svc('model', 'import');
  assert.match(text.stderr, /svc: refused: .*out-Q8_0\.gguf is a link out of .* svc model add/);
});

test('without a store, an import from it says where it looked', async (context) => {
  const store = storeIn(context);
  const none = await store.svc('model', 'import', '--from', 'lmstudio');
  assertExit(none, 1);
  assert.match(
    none.stderr,
    /there are no models of LM Studio: no folder .*\.lmstudio\/models, .*lm-studio\/models\nhint: /,
  );
  const all = await store.svc('model', 'import');
  assertExit(all, 0);
  assert.is(all.stdout, '0 registered, 0 here already, 0 refused\n');
});

test.run();
