/** The daemon with its real engine: how start, crash and loss of the engine change the conditions. */
import { existsSync, readdirSync, statSync, symlinkSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import type { GenerateRequest, Message } from '../../src/protocol/generate.ts';
import type { ReadyRecord } from '../../src/protocol/records.ts';
import { ask } from '../http/ask.ts';
import { daemonSuite, startIn } from '../support/daemon-suite.ts';
import { turnsOf, type DaemonProcess } from '../support/daemon.ts';
import { LONG_CONTEXT } from '../support/hold.ts';
import { configure } from '../support/home.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';
import { answerTo, type Answer } from './answer.ts';

/** Folder of `svc.node` and its libraries. */
const addon = fileURLToPath(new URL('../../build/addon/bin', import.meta.url));

const test = daemonSuite('engine');

const MAY_GO_FIRST = process.platform === 'linux' && process.getuid?.() === 0 && getPriority() === 0;

async function enginePid(daemon: DaemonProcess): Promise<number> {
  const [model] = (await daemon.client.status()).models;
  assert.type(model?.pid, 'number');
  return model!.pid!;
}

const isPrefix = (name: string): boolean => name.endsWith('.prefix');

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function generate(
  daemon: DaemonProcess,
  maxTokens: number,
  onText?: () => void,
  sampling: GenerateRequest['sampling'] = { temperature: 1 },
): Promise<Answer> {
  const messages = [{ role: 'user' as const, content: 'Tell a story' }];
  return answerTo(daemon, { messages, max_tokens: maxTokens, sampling, stop: [] }, onText);
}

test('the daemon is ready once the engine has produced a token, and then answers', async (context) => {
  const daemon = await startIn(context).settled();
  const ready = await daemon.client.ready();
  assert.is(ready.status, 'ready', JSON.stringify(ready.conditions));
  const health = await daemon.client.health();
  assert.is(health.models.length, 1);
  assert.is(health.models[0]?.state, 'loaded');
  assert.type(health.resources.cpu_percent, 'number');
  assert.ok((health.resources.rss_bytes ?? 0) > (health.models[0]?.rss_bytes ?? Infinity));
  const { text, end } = await generate(daemon, 8);
  assert.is(end, 'finish');
  assert.ok(text.length > 0);
  const cpu = await waitFor('the devices', async () => {
    return (await daemon.client.health()).resources.devices.find(({ backend }) => backend === 'CPU');
  });
  assert.ok((cpu.memory_free_bytes ?? 0) > 0 && (cpu.memory_free_bytes ?? 0) <= (cpu.memory_total_bytes ?? 0));
});

unless(MAY_GO_FIRST ? undefined : 'only root may raise priority', test)(
  'an engine and its compute threads run at a higher priority than ordinary programs',
  async (context) => {
    const daemon = await startIn(context).settled();
    const pid = await enginePid(daemon);
    await generate(daemon, 8);
    assert.is(getPriority(pid), -5);
    const first = readdirSync(`/proc/${String(pid)}/task`).filter((thread) => getPriority(Number(thread)) === -5);
    assert.ok(first.length > 1, 'not the main thread alone');
    assert.is(getPriority(daemon.pid), 0);
  },
);

test('a killed engine fails its own requests, turns the condition, and is restarted', async (context) => {
  configure(context.home, LONG_CONTEXT);
  const daemon = await startIn(context).settled();
  const first = await enginePid(daemon);
  let begun: () => void = () => undefined;
  const text = new Promise<void>((resolve) => (begun = resolve));
  // The bias forces the same token again and again, so the answer does not end by itself.
  const endless = { temperature: 1, logit_bias: [[100, 100]] } satisfies GenerateRequest['sampling'];
  const answer = generate(daemon, LONG_CONTEXT.engine.context_length, begun, endless);
  await text;
  process.kill(first, 'SIGKILL');
  assert.is((await answer).end, 'ENGINE_CRASHED');
  await waitFor('the engine to be back', async () => {
    const [ready, status] = [await daemon.client.ready(), await daemon.client.status()];
    return ready.status === 'ready' && status.models[0]?.pid !== first;
  });
  assert.is((await generate(daemon, 4)).end, 'finish');
  assert.equal(turnsOf(daemon, 'engine'), ['fail', 'ok']);
});

test('cached prefixes survive a kill of the engine and a restart of the daemon', async (context) => {
  const folder = join(context.home.dir, 'cache', 'prefixes');
  const question = { role: 'user' as const, content: 'What can svc do for me, and how do I begin? '.repeat(20) };
  const turn = async (daemon: DaemonProcess, messages: Message[]): Promise<{ text: string; cached: number }> => {
    let text = '';
    const request = { messages, max_tokens: 24, sampling: { temperature: 0 }, stop: [] };
    for await (const event of daemon.client.generate(request)) {
      if (event.type === 'text') text += event.text;
      if (event.type === 'finish') return { text, cached: event.usage?.cached_tokens ?? 0 };
    }
    throw new Error('no end');
  };
  const saved = (): readonly string[] =>
    (existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : []).filter(isPrefix);

  const daemon = await startIn(context).settled();
  const first = await turn(daemon, [question]);
  assert.is(first.cached, 0);
  await waitFor('the prefix to be written', () => saved().length > 0);
  assert.is(statSync(folder).mode & 0o777, 0o700);

  const pid = await enginePid(daemon);
  process.kill(pid, 'SIGKILL');
  await waitFor('the engine to be back', async () => {
    const { models } = await daemon.client.status();
    return models[0]?.state === 'loaded' && models[0].pid !== pid;
  });
  const messages = [question, { role: 'assistant' as const, content: first.text }, question];
  const second = await turn(daemon, messages);
  assert.ok(second.cached > 64, `${String(second.cached)} cached`);

  daemon.kill('SIGTERM');
  assert.equal(await daemon.exit, { code: 0, signal: null });
  const next = await startIn(context).settled();
  const again = await turn(next, messages);
  assert.ok(again.cached > second.cached, `${String(again.cached)} cached`);
  next.kill('SIGTERM');
  await next.exit;

  // After it is turned off, the stored prefixes are gone.
  configure(context.home, '{ "engine": { "prefix_disk_bytes": 0 } }');
  const without = await startIn(context).settled();
  assert.is((await turn(without, messages)).cached, 0);
  without.kill('SIGTERM');
  await without.exit;
  assert.equal(saved(), []);
});

test('no engine outlives the daemon, however the daemon ends', async (context) => {
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGABRT'] as const) {
    const daemon = await startIn(context).settled();
    const pid = await enginePid(daemon);
    assert.ok(isAlive(pid));
    daemon.kill(signal);
    await daemon.exit;
    await waitFor(`the engine to be gone after ${signal}`, () => !isAlive(pid));
  }
});

test('a stop while the model loads takes effect and leaves no engine', async (context) => {
  const daemon = await startIn(context).answering();
  const pid = await waitFor('an engine process', async () => (await daemon.client.status()).models[0]?.pid);
  const began = performance.now();
  daemon.kill('SIGTERM');
  assert.equal(await daemon.exit, { code: 0, signal: null });
  assert.ok(performance.now() - began < 25_000, 'before a drain would have ended by itself');
  assert.not.ok(isAlive(pid));
});

test('without an addon the daemon runs and reports it, and uses the addon once it exists', async (context) => {
  const place = join(context.home.dir, 'addon');
  const daemon = await startIn(context, { env: { SVC_ADDON: join(place, 'svc.node') } }).settled();
  const ready = await ask({ socketPath: daemon.socketPath }, '/readyz');
  assert.is(ready.status, 503);
  const record = ready.json() as ReadyRecord;
  assert.is(record.state, 'DEGRADED');
  const engine = record.conditions.find(({ name }) => name === 'engine');
  assert.is(engine?.status, 'fail');
  assert.match(engine?.reason ?? '', 'addon cannot be loaded');
  assert.is((await ask({ socketPath: daemon.socketPath }, '/livez')).status, 200);
  assert.is((await generate(daemon, 1)).end, 'ENGINE_UNAVAILABLE');

  assert.ok(existsSync(addon), 'the addon is built');
  symlinkSync(addon, place);
  await waitFor('the engine', async () => (await daemon.client.ready()).status === 'ready');
  assert.is((await generate(daemon, 4)).end, 'finish');
});

test.run();
