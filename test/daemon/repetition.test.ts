/** `repetition_guard` with real engines: by request, by name and for all models, over HTTP, gRPC and the CLI. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type OpenAI from 'openai';
import type { FinishEvent, GenerateRequest, GenerateResult } from '../../src/protocol/generate.ts';
import { failure } from '../http/api-failure.ts';
import { connectTo } from '../grpc/scripted.ts';
import { assertExit } from '../support/exit.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { openAiClient } from '../support/openai.ts';
import { svc } from '../support/svc.ts';
import { waitFor } from '../support/wait.ts';

let home: Home;
let daemon: DaemonProcess;

/** The bias makes the model repeat one token. */
const STUCK = [[100, 100]] as const;
const messages = [{ role: 'user' as const, content: 'Go on' }];

test.before(async () => {
  home = await makeHome();
  const models = {
    guarded: { from: 'tiny', repetition_guard: 'stop' },
    free: { from: 'tiny', repetition_guard: 'off' },
  };
  const config = { engine: { threads: 1, repetition_guard: 'warn' }, models };
  configure(home, config);
  assertExit(await svc(['model', 'add', modelPath('tiny-qwen2'), '--name', 'tiny'], { home }), 0);
  daemon = await spawnDaemon(home).settled();
});
test.after(async () => {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
});

async function finishOf(model: string, asked: Partial<GenerateRequest> = {}): Promise<FinishEvent> {
  const request = {
    model,
    messages,
    sampling: { logit_bias: STUCK.map((each) => [...each] as [number, number]) },
    stop: [],
    max_tokens: 150,
    ...asked,
  };
  for await (const event of daemon.client.generate(request)) {
    if (event.type === 'finish') return event;
  }
  throw new Error('no finish');
}

test('the setting of the request counts, then that of the name, then that of all models', async () => {
  const warned = await finishOf('tiny');
  assert.equal(warned.repetition, { period_tokens: 1, repeated_tokens: 150, stopped: false });
  assert.equal([warned.reason, warned.usage?.output_tokens], ['length', 150]);
  const line = await waitFor('its line', () => daemon.log.find(({ msg }) => msg === 'the answer repeats itself'));
  assert.equal([line['model'], line['period_tokens'], line['stopped']], ['tiny', 1, false]);

  const stopped = await finishOf('guarded', { max_tokens: 100_000 });
  assert.equal(stopped.repetition, { period_tokens: 1, repeated_tokens: 128, stopped: true });
  assert.equal([stopped.reason, stopped.usage?.output_tokens], ['length', 128]);

  assert.is((await finishOf('free')).repetition, undefined);
  assert.is((await finishOf('guarded', { repetition_guard: 'off' })).repetition, undefined);
  assert.is((await finishOf('free', { repetition_guard: 'stop' })).repetition?.stopped, true);
  assert.is((await finishOf('guarded', { max_tokens: 127 })).repetition, undefined);
});

test('an answer that does not repeat itself is left alone', async () => {
  const finish = await finishOf('guarded', { sampling: { temperature: 2, min_p: 0, top_k: 0, top_p: 1, seed: 1 } });
  assert.is(finish.repetition, undefined);
});

test('every API reports it', async () => {
  const { grpc } = await daemon.client.status();
  const client = await openAiClient(daemon);
  const asked = {
    model: 'tiny',
    messages,
    logit_bias: { '100': 100 },
    max_completion_tokens: 1000,
    repetition_guard: 'stop',
  };
  const expected = { period_tokens: 1, repeated_tokens: 128, stopped: true };
  const whole = (await client.chat.completions.create(asked)) as OpenAI.ChatCompletion & { repetition?: object };
  assert.equal([whole.choices[0]?.finish_reason, whole.repetition], ['length', expected]);
  const found: unknown[] = [];
  for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
    const { repetition } = chunk as { repetition?: object };
    if (repetition !== undefined) found.push(repetition, chunk.choices[0]?.finish_reason);
  }
  assert.equal(found, [expected, 'length']);
  const wrong: object = { ...asked, repetition_guard: 'maybe' };
  const error = await failure(client.chat.completions.create(wrong as typeof asked));
  assert.is(error.param, 'repetition_guard');

  const rpc = connectTo(grpc ?? '');
  const call = rpc.stream('Inference/Generate', {
    model: 'tiny',
    messages,
    sampling: { logit_bias: [{ token: 100, bias: 100 }] },
    repetition_guard: 'stop',
  });
  let last: any;
  for await (const event of call) last = event;
  rpc.close();
  assert.equal(last.finish.repetition, expected);

  const { stdout } = await svc(['run', '-m', 'guarded', '--temperature', '0', '--json', '--max-tokens', '3', 'Hi'], {
    home,
  });
  assert.is((JSON.parse(stdout) as GenerateResult).repetition, undefined);
});

test.run();
