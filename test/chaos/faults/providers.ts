/** Faults of a provider or its clients, and their effect on other requests. */
import { status } from '@grpc/grpc-js';
import { startUpstream, type Script } from '../../backends/cloud/upstream.ts';
import { connectTo, failureOf } from '../../grpc/scripted.ts';
import { ask } from '../../http/ask.ts';
import { must, type Fault } from '../fault.ts';
import type { Scene } from '../scene.ts';
import { answer } from '../see.ts';

const MIB = 1024 * 1024;

const ANSWER = {
  id: 'chat-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

/** Starts a daemon with a provider `farm` that answers by `script`. */
async function startWithProvider(scene: Scene, script: Script): Promise<void> {
  const upstream = await startUpstream(script);
  scene.onClose(() => upstream.close());
  const farm = { kind: 'openai_compatible', base_url: `${upstream.url}/v1`, default_model: 'm' };
  scene.configure({ providers: { farm } });
  await scene.start();
}

async function askFarm(scene: Scene, content: string): Promise<string> {
  const body = { messages: [{ role: 'user', content }], route: 'provider:farm', fallback: false };
  return answer(await ask({ port: scene.port }, '/v1/chat/completions', { body }));
}

export const PROVIDERS: readonly Fault[] = [
  {
    name: 'endless error of a provider',
    planted: 'a provider whose error is 1 MiB of `input token count `, under load',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'absent',
    sees: /^HTTP \d+: .{1,8192}$/,
    async plant(scene) {
      const piece = 'input token count ';
      const message = piece.repeat(Math.ceil(MIB / piece.length));
      await startWithProvider(scene, (turn) => {
        turn.json(400, { error: { message, type: 'invalid_request_error' } });
      });
      await scene.load();
      let saw = '';
      await scene.timed(async () => (saw = await askFarm(scene, 'Hello')));
      must(saw.length < MIB / 4, 'the whole error was passed on');
      return saw.replaceAll(piece, '').trim() === saw ? saw : `${saw.slice(0, 80)}…`;
    },
  },
  {
    name: 'deadlines shorter than a provider takes',
    planted:
      'twelve gRPC calls with a deadline of 250 ms, which the provider exceeds, then a request without one, under load',
    mended: 'by itself',
    withinSeconds: 3,
    daemon: 'absent',
    sees: /^twelve times DEADLINE_EXCEEDED, then HTTP 200$/,
    async plant(scene) {
      await startWithProvider(scene, async (turn) => {
        const { messages } = turn.request.body as { messages: { content: string }[] };
        if (messages[0]?.content === 'hurry') await turn.over();
        else turn.json(200, ANSWER);
      });
      await scene.load();
      const client = connectTo(scene.home.env.SVC_GRPC_ADDR);
      scene.onClose(() => client.close());
      const request = { messages: [{ role: 'user', content: 'hurry' }], route: 'provider:farm' };
      const codes = new Set<string>();
      let patient = '';
      await scene.timed(async () => {
        for (let count = 0; count < 12; count += 1) {
          const call = client.stream('Inference/Generate', request, { deadline: Date.now() + 250 });
          codes.add(status[(await failureOf(call)).status] ?? '');
        }
        patient = await askFarm(scene, 'Hello');
      });
      return `twelve times ${[...codes].join(', ')}, then ${patient}`;
    },
  },
];
