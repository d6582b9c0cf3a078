import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { preferred, prefixKey, type Choice } from '../../../src/backends/cloud/cluster/balance.ts';
import { requestsOn } from '../../../src/backends/cloud/cluster/load-report.ts';
import type { GenerateRequest, Message } from '../../../src/protocol/generate.ts';

const cluster = (...loads: number[]): Choice[] =>
  loads.map((load, index) => ({ url: `http://h${String(index)}/v1`, load }));
const keys = Array.from({ length: 2000 }, (_, index) => `key ${String(index)}`);
const first = (choices: readonly Choice[], key: string): string => preferred(choices, key)[0]?.url ?? '';

test('keys spread evenly over the endpoints, and each key keeps its endpoint', () => {
  const counts = new Map<string, number>();
  for (const key of keys) {
    const url = first(cluster(0, 0, 0, 0), key);
    assert.is(first(cluster(1, 2, 0, 3), key), url, 'a few requests are no load');
    counts.set(url, (counts.get(url) ?? 0) + 1);
  }
  for (const count of counts.values()) assert.ok(count > 400 && count < 600, String(count));
});

test('removing an endpoint moves only its own keys', () => {
  const all = cluster(0, 0, 0, 0);
  for (const key of keys) {
    const before = preferred(all, key).map(({ url }) => url);
    const gone = before[1];
    const after = preferred(
      all.filter(({ url }) => url !== gone),
      key,
    ).map(({ url }) => url);
    assert.equal(
      after,
      before.filter((url) => url !== gone),
    );
  }
});

test('no endpoint gets more than 25 % above the mean while another has capacity', () => {
  const loads = [0, 0, 0, 0];
  for (let n = 0; n < 400; n += 1) {
    const url = first(cluster(...loads), 'the same for all');
    loads[Number(/h(\d)/.exec(url)?.[1])]! += 1;
    const most = Math.max(...loads);
    assert.ok(most <= Math.max(4, Math.ceil((1.25 * (n + 2)) / 4)), `${String(most)} of ${String(n + 1)}`);
  }
});

test('the list contains every endpoint, whatever its load', () => {
  assert.is(preferred(cluster(100, 0, 50, 70), 'x').length, 4);
  assert.equal(
    preferred(cluster(90, 100, 0, 95), 'x')
      .slice(1)
      .map(({ load }) => load),
    [90, 95, 100],
  );
});

const ask = (messages: Message[], more: Partial<GenerateRequest> = {}): string =>
  prefixKey({ messages, sampling: {}, stop: [], ...more });

test('turns of a conversation share a key; another beginning, model or tool set gets another key', () => {
  const system: Message = { role: 'system', content: 'Be kind' };
  const turn: Message = { role: 'user', content: 'Hello' };
  const key = ask([system, turn]);
  assert.is(ask([system, turn, { role: 'assistant', content: 'Hi' }, { role: 'user', content: 'And?' }]), key);
  assert.is(ask([system, turn], { sampling: { temperature: 1 } }), key);
  assert.is.not(ask([system, { role: 'user', content: 'Bye' }]), key);
  assert.is.not(ask([turn]), key);
  assert.is.not(ask([system, turn], { model: 'other' }), key);
  assert.is.not(ask([system, turn], { tools: [{ name: 'f', parameters: {} }] }), key);
});

test('the load is read from the metrics that servers report', () => {
  assert.is(
    requestsOn('vllm:num_requests_waiting{model_name="m"} 2.0\nvllm:num_requests_running{model_name="m"} 3.0\n'),
    5,
  );
  assert.is(requestsOn('sglang:num_queue_reqs{x="y"} 1\nsglang:num_running_reqs{x="y"} 1\n'), 2);
  assert.is(
    requestsOn(
      'svc_requests_waiting 1\nsvc_requests_active 4\nvllm:num_requests_waiting 1\nvllm:num_requests_running 4\n',
    ),
    5,
  );
  assert.is(requestsOn('llamacpp:requests_processing 1\n'), null);
  assert.is(requestsOn('vllm:num_requests_waiting NaN\nvllm:num_requests_running 1\n'), null);
});

test.run();
