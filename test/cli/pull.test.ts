/** `svc model pull`, `search` and `rm`, with and without a daemon, and `/api/pull` as apps call it. */
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import type { PullEvent } from '../../src/protocol/routes.ts';
import { ask } from '../http/ask.ts';
import { FakeHub } from '../models/pull/fake-hub.ts';
import { MIB, modelOf } from '../models/pull/pull-support.ts';
import { assertExit } from '../support/exit.ts';
import type { Home } from '../support/home.ts';
import { spawnSvc, svc } from '../support/svc.ts';
import { svcSuite } from '../support/svc-suite.ts';
import { NO_TERMINAL, Terminal } from '../support/terminal.ts';
import { SVC_COMMAND } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

const test = svcSuite('svc model pull');
const hub = new FakeHub();
const content = modelOf(3 * MIB);
test.before(async () => {
  await hub.start();
});
test.after(() => hub.stop());
test.before.each(() => {
  hub.reset();
  hub.repositories.clear();
  hub.add('acme/Tiny-GGUF', 'Tiny-Q4_K_M.gguf', content);
});
const env = (): Record<string, string> => ({ HF_ENDPOINT: hub.endpoint });

test('a pull without a daemon prints progress and the model, and adds the model', async ({ home }) => {
  const pulled = await svc(['model', 'pull', 'hf:acme/Tiny-GGUF'], { home, env: env() });
  assertExit(pulled, 0);
  assert.match(pulled.stderr, /pulling acme\/Tiny-GGUF:Q4_K_M \(3\.1 MB\)/);
  assert.match(pulled.stderr, /100 %, 3\.1 MB of 3\.1 MB/);
  assert.match(pulled.stdout, /pulled acme\/Tiny-GGUF:Q4_K_M .*svc run -m acme\/Tiny-GGUF:Q4_K_M/);
  const shown = await svc(['model', 'show', 'acme/tiny-gguf', '--json'], { home });
  assert.is(JSON.parse(shown.stdout).source, 'hf:acme/Tiny-GGUF:Q4_K_M');
  const again = await svc(['model', 'pull', 'hf:acme/Tiny-GGUF', '--json'], { home, env: env() });
  const events = again.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as PullEvent);
  assert.equal([events[0]?.type, events.at(-1)?.type], ['resolved', 'pulled']);
  const removed = await svc(['model', 'rm', '--yes', 'acme/Tiny-GGUF'], { home });
  assertExit(removed, 0);
});

/** Pulls a model until its first MiB is there, pauses with Ctrl-C, and returns what that prints. */
async function paused(home: Home, model: string): Promise<string> {
  const before = hub.sent;
  hub.onBytes = async ({ res, from, to, content: whole }) => {
    res.writeHead(206, { 'content-range': `bytes ${from}-${to - 1}/${whole.length}` });
    await hub.write(res, whole.subarray(from, from + MIB));
    return true;
  };
  const running = spawnSvc(['model', 'pull', model], { home, env: env() });
  await waitFor('the first bytes', () => hub.sent >= before + MIB);
  await waitFor('a line of progress', () => /pulling/.test(running.stderr()));
  running.child.kill('SIGINT');
  const { code, stderr } = await running.result;
  assert.is(code, 130, stderr);
  return stderr;
}

test('Ctrl-C pauses a pull and prints how to resume it; rm deletes the partial download', async ({ home }) => {
  const stderr = await paused(home, 'hf:acme/Tiny-GGUF');
  assert.match(stderr, /paused.*is kept/);
  assert.match(
    stderr,
    /resume: svc model pull hf:acme\/Tiny-GGUF; or delete it: svc model rm acme\/Tiny-GGUF:Q4_K_M$/m,
  );
  const downloads = join(home.dir, 'cache', 'downloads');
  assert.is((await readdir(downloads)).length, 2);
  const removed = await svc(['model', 'rm', 'hf:acme/Tiny-GGUF'], { home });
  assert.match(removed.stdout, /removed the partial download of acme\/Tiny-GGUF:Q4_K_M/);
  assert.equal(await readdir(downloads), []);
});

test('rm finds a partial download by the name of the catalogue that was pulled', async ({ home, run }) => {
  hub.add('HuggingFaceTB/SmolLM2-360M-Instruct-GGUF', 'smollm2-360m-instruct-q8_0.gguf', content);
  const stderr = await paused(home, 'smollm2-360m');
  const id = 'HuggingFaceTB/SmolLM2-360M-Instruct-GGUF:Q8_0';
  assert.match(stderr, `resume: svc model pull smollm2-360m; or delete it: svc model rm ${id}`);
  const removed = await run('model', 'rm', 'smollm2-360m');
  assertExit(removed, 0);
  assert.match(removed.stdout, `removed the partial download of ${id}`);
  assert.equal(await readdir(join(home.dir, 'cache', 'downloads')), []);
});

test('a paused pull of a newer version does not name the command that would remove the older one', async ({ home }) => {
  assertExit(await svc(['model', 'pull', 'hf:acme/Tiny-GGUF'], { home, env: env() }), 0);
  hub.add('acme/Tiny-GGUF', 'Tiny-Q4_K_M.gguf', modelOf(3 * MIB, 2));
  const stderr = await paused(home, 'hf:acme/Tiny-GGUF');
  assert.match(stderr, /resume: svc model pull hf:acme\/Tiny-GGUF$/m);
});

test('Ctrl-C before the download begins says so, and names no partial download', async ({ home }) => {
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const connected = once(silent, 'connection');
  const { port } = silent.address() as AddressInfo;
  const running = spawnSvc(['model', 'pull', 'hf:acme/Tiny-GGUF'], {
    home,
    env: { HF_ENDPOINT: `http://127.0.0.1:${String(port)}` },
  });
  const [socket] = (await connected) as [Socket];
  running.child.kill('SIGINT');
  const { code, stderr } = await running.result;
  socket.destroy();
  silent.close();
  assert.is(code, 130, stderr);
  assert.is(stderr, 'svc: cancelled before the download of hf:acme/Tiny-GGUF began\n');
});

test("the daemon pulls for the command, with the command's hub and token, and for apps with Ollama's API", async ({
  home,
  run,
}) => {
  hub.token = 'hf_of_the_command';
  assertExit(await run('start', '--timeout', '150s'), 0);
  const refused = await svc(['model', 'pull', 'hf:acme/Tiny-GGUF'], { home, env: env() });
  assertExit(refused, 77);
  assert.match(refused.stderr, /hint: accept its terms/);
  const pulled = await svc(['model', 'pull', 'hf:acme/Tiny-GGUF', '--json'], {
    home,
    env: { ...env(), HF_TOKEN: 'hf_of_the_command' },
  });
  assertExit(pulled, 0);
  const listed = JSON.parse((await run('model', 'list', '--json')).stdout) as { models: { id: string }[] };
  assert.ok(listed.models.some(({ id }) => id === 'acme/Tiny-GGUF:Q4_K_M'));
  const log = await run('logs', '--level', 'trace');
  assert.not.match(log.stdout, /hf_of_the_command/);

  const { http } = JSON.parse((await run('status', '--json')).stdout) as { http: string };
  const port = Number(http.split(':').at(-1));
  const keyless = await ask({ port }, '/api/pull', { body: { model: 'tiny' } });
  assert.is(keyless.status, 401);
  assert.match(keyless.json().error, /svc key add NAME --scope admin/);
  const { key } = JSON.parse((await run('key', 'add', 'deploy', '--scope', 'admin', '--json')).stdout) as {
    key: string;
  };
  const headers = { 'x-api-key': key };
  // The daemon has no hub in its environment, so the app gives a full address.
  for (const body of [{ model: 'bad name' }, { name: 'bad name', stream: false }]) {
    const answer = await ask({ port }, '/api/pull', { body, headers });
    assert.is(answer.status, 400);
    assert.type(answer.json().error, 'string');
  }
  const missing = await ask({ port }, '/api/pull', { body: {}, headers });
  assert.match(missing.json().error, /model is required/);
});

test('an invalid name, an unknown model and a hub that is disabled are errors', async ({ home, run }) => {
  const short = await run('model', 'pull', 'qwen3-4');
  assertExit(short, 1);
  assert.match(short.stderr, /did you mean qwen3-4b\?/);
  assertExit(await run('model', 'pull', 'a b'), 2);
  assertExit(await run('model', 'pull', 'https://example.com/m.gguf'), 2);
  assertExit(await svc(['model', 'pull', 'hf:acme/none'], { home, env: env() }), 1);
  const offline = await svc(['model', 'pull', 'hf:acme/Tiny-GGUF'], { home, env: { ...env(), HF_HUB_OFFLINE: '1' } });
  assertExit(offline, 69);
  assert.match(offline.stderr, /HF_HUB_OFFLINE/);
});

test('running a model that is not downloaded prints the pull command', async ({ run }) => {
  assertExit(await run('start', '--timeout', '150s'), 0);
  const { code, stderr } = await run('run', '-m', 'hf:acme/Tiny-GGUF', 'Hello');
  assert.is(code, 1);
  assert.match(stderr, /hint: pull it: svc model pull hf:acme\/Tiny-GGUF/);
  for (const command of [
    ['model', 'load'],
    ['model', 'default'],
    ['model', 'show'],
    ['bench', '-m'],
    ['chat', '-m'],
  ]) {
    const missing = await run(...command, 'smollm2-360m');
    assertExit(missing, 1);
    assert.match(missing.stderr, /hint: pull it: svc model pull smollm2-360m$/m, command.join(' '));
  }
});

test('search lists the catalogue, and searches the hub if given words', async ({ home }) => {
  const all = await svc(['model', 'search'], { home, env: env() });
  assert.match(all.stdout, /qwen3-4b +~2\.5 GB +.* 4\.02B +Q4_K_M/);
  assert.equal(hub.seen, []);
  const found = JSON.parse((await svc(['model', 'search', 'tiny', '--json'], { home, env: env() })).stdout);
  assert.equal(
    found.hub.map(({ repo }: { repo: string }) => repo),
    ['acme/Tiny-GGUF'],
  );
  assert.equal(
    found.catalogue.map(({ name }: { name: string }) => name),
    ['tinyllama-1.1b'],
  );
  const local = await svc(['model', 'search', 'tiny', '--local'], { home, env: env() });
  assert.not.match(local.stdout, /acme/);
  hub.onHub = (_, res) => {
    res.writeHead(500).end();
    return true;
  };
  const without = await svc(['model', 'search', 'code'], { home, env: env() });
  assertExit(without, 0);
  assert.match(without.stderr, /the hub could not be searched/);
  assert.match(without.stdout, /qwen2\.5-coder-7b/);
});

test('a terminal shows a progress bar', async ({ home }) => {
  if (NO_TERMINAL !== undefined) return;
  const terminal = new Terminal([...SVC_COMMAND, 'model', 'pull', 'hf:acme/Tiny-GGUF'], { ...home.env, ...env() });
  await terminal.shows(/\[=+ *\] 100 %/);
  await terminal.shows('pulled acme/Tiny-GGUF:Q4_K_M');
  assert.is(await terminal.end(), 0);
});

test.run();
