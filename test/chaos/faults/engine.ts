/** Faults of an engine process: it is killed, crashes or hangs. */
import { writeFileSync } from 'node:fs';
import { modelWithTemplate } from '../../support/template-model.ts';
import { conditionTurns } from '../conditions.ts';
import { must, type Fault } from '../fault.ts';
import { CLIENTS } from '../load.ts';
import type { Scene } from '../scene.ts';
import { ending } from '../see.ts';

/** A stall timeout of one second, to save time; a minute behaves the same. */
const IMPATIENT = { engine: { stall_timeout_seconds: 1 } };

/** A template that never ends if a message says "spin". */
const SPINNING_TEMPLATE =
  "{% if messages[0].content == 'spin' %}{% for i in range(100000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}{% endif %}" +
  '{% for m in messages %}{{ m.content }}{% endfor %}';

function endedInStream(signal: 'SIGKILL' | 'SIGSEGV' | 'SIGABRT', like: string): Fault {
  return {
    name: `engine ended by ${signal} in the middle of a stream`,
    planted: `\`kill -${signal.slice(3)}\` of its engine after the first words, ${like}`,
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: new RegExp(`^the stream ended with engine_crashed: the engine of tiny was ended by ${signal}$`),
    mayFail: ['engine_crashed'],
    async plant(scene) {
      const stream = await scene.heldStream();
      await scene.timed(() => {
        process.kill(stream.pid, signal);
        stream.release();
      }, 'tiny');
      return (await stream.end).saw;
    },
  };
}

async function askAgain({ requests }: Scene): Promise<string> {
  return (await requests.ask()).saw;
}

export const ENGINE: readonly Fault[] = [
  {
    name: 'idle engine killed',
    planted: '`kill -9` of the engine while it is idle',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    sees: /^the whole answer$/,
    async plant(scene) {
      const { pid } = await scene.engine();
      await scene.timed(() => process.kill(pid, 'SIGKILL'));
      return await askAgain(scene);
    },
  },
  {
    name: 'engine killed under load',
    planted: '`kill -9` of the engine while three clients send it requests',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    // Requests whose first text was sent cannot be retried.
    mayFail: ['engine_crashed'],
    sees: /^the whole answer$/,
    async plant(scene) {
      const { pid } = await scene.engine();
      await scene.timed(() => process.kill(pid, 'SIGKILL'));
      return await askAgain(scene);
    },
  },
  endedInStream('SIGKILL', 'as the kernel does when memory runs out'),
  endedInStream('SIGSEGV', 'as a bug in native code does'),
  endedInStream('SIGABRT', 'as a failed assertion in libllama does'),
  {
    name: 'engine killed before the first words',
    planted: 'the engine is stopped, gets a request, and is killed: `kill -STOP`, then `kill -9`',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    sees: /^the whole answer$/,
    async plant(scene) {
      const { pid } = await scene.engine();
      process.kill(pid, 'SIGSTOP');
      const asked = scene.requests.ask();
      await scene.underWay(1);
      await scene.timed(() => process.kill(pid, 'SIGKILL'));
      return (await asked).saw;
    },
  },
  {
    name: 'engine killed while it loads its model',
    planted: '`kill -9` of an engine that `svc run -m` has just started',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^exit 0$/,
    async plant(scene) {
      const asked = scene.spawn(['run', '-m', 'tiny', '--max-tokens', '4', 'Hello']);
      const { pid } = await scene.engine('tiny');
      process.kill(pid, 'SIGSTOP');
      must((await scene.engine('tiny')).state === 'loading', 'it had loaded before it could be stopped');
      await scene.timed(() => process.kill(pid, 'SIGKILL'), 'tiny');
      return ending(await asked.result);
    },
  },
  {
    name: 'engine killed four times in a row',
    planted: '`kill -9` of the engine as soon as there is one, four times, while three clients send it requests',
    mended: 'by itself',
    withinSeconds: 10,
    daemon: 'lives',
    underLoad: true,
    mayFail: ['engine_crashed', 'not_ready'],
    sees: /^the whole answer$/,
    async plant(scene) {
      const killed = new Set<number>();
      while (killed.size < 4) {
        const { pid } = await scene.engine();
        if (killed.has(pid)) continue;
        killed.add(pid);
        // The time of the last kill counts.
        await scene.timed(() => process.kill(pid, 'SIGKILL'));
      }
      await scene.recovered();
      return await askAgain(scene);
    },
  },
  {
    name: 'idle engine hangs',
    planted: '`kill -STOP` of the engine, `engine.stall_timeout_seconds` 1',
    mended: 'by itself',
    withinSeconds: 8,
    daemon: 'lives',
    config: IMPATIENT,
    sees: /^the whole answer$/,
    async plant(scene) {
      const { pid } = await scene.engine();
      await scene.timed(() => process.kill(pid, 'SIGSTOP'));
      return await askAgain(scene);
    },
  },
  {
    name: 'idle engine stopped for a while',
    planted:
      '`kill -STOP` of the engine while it is idle, at the default settings, and `kill -CONT` once health shows it',
    mended: '`kill -CONT`',
    withinSeconds: 5,
    daemon: 'lives',
    sees: /^engine warn: /,
    async plant(scene) {
      const { pid } = await scene.engine();
      process.kill(pid, 'SIGSTOP');
      const reason = await conditionTurns(scene, 'engine', /^(warn|fail)$/);
      await scene.timed(() => process.kill(pid, 'SIGCONT'));
      await conditionTurns(scene, 'engine', /^ok$/);
      must((await scene.engine()).pid === pid, 'the engine is another');
      return reason;
    },
  },
  {
    name: 'endless chat template',
    planted: 'a request whose chat template never ends, and one to the same model whose template does',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    mayFail: ['invalid_request'],
    sees: /^the other: the whole answer, the first: HTTP 400 /,
    async plant(scene) {
      const file = scene.path('spins.gguf');
      writeFileSync(file, await modelWithTemplate(SPINNING_TEMPLATE));
      must((await scene.svc('model', 'add', file, '--name', 'spins')).code === 0, 'it could not be added');
      must((await scene.requests.ask({ model: 'spins' })).kind === 'answered', 'it does not answer');
      const first = scene.requests.ask({ model: 'spins', prompt: 'spin' });
      await scene.timed(() => undefined, 'spins');
      const other = await scene.requests.ask({ model: 'spins' });
      return `the other: ${other.saw}, the first: ${(await first).saw}`;
    },
  },
  {
    name: 'engine hangs in the middle of a stream',
    planted: '`kill -STOP` of its engine after the first words, `engine.stall_timeout_seconds` 1',
    mended: 'by itself',
    withinSeconds: 8,
    daemon: 'lives',
    underLoad: true,
    config: IMPATIENT,
    mayFail: ['engine_crashed'],
    sees: /^the stream ended with engine_crashed: the engine of tiny was not heard of for \d+\.\d s$/,
    async plant(scene) {
      const stream = await scene.stream();
      const { pid } = await scene.engine('tiny');
      await scene.timed(() => process.kill(pid, 'SIGSTOP'), 'tiny');
      return (await stream.end).saw;
    },
  },
  {
    name: 'engine paused for a moment',
    planted: '`kill -STOP` of the engine, and `kill -CONT` when all clients wait',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    sees: /^the whole answer$/,
    async plant(scene) {
      const { pid } = await scene.engine();
      process.kill(pid, 'SIGSTOP');
      const asked = scene.requests.ask();
      await scene.underWay(CLIENTS + 1);
      await scene.timed(() => process.kill(pid, 'SIGCONT'));
      must((await scene.engine()).pid === pid, 'the engine is another');
      return (await asked).saw;
    },
  },
  {
    name: 'all engines killed at once',
    planted: '`kill -9` of the engines of two models in the middle of a stream',
    mended: 'by itself',
    withinSeconds: 5,
    daemon: 'lives',
    underLoad: true,
    mayFail: ['engine_crashed'],
    sees: /^the stream ended with engine_crashed: the engine of tiny was ended by SIGKILL$/,
    async plant(scene) {
      const stream = await scene.heldStream();
      const pids = [stream.pid, (await scene.engine()).pid];
      await scene.timed(() => pids.forEach((pid) => process.kill(pid, 'SIGKILL')), 'tiny');
      return (await stream.end).saw;
    },
  },
];
