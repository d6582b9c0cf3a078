/** The exporter's queue: bounded, in batches, repeated after a failure, emptied at the end. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Delivery } from '../../src/traces/collector.ts';
import { Exporter, type ExporterLimits } from '../../src/traces/exporter.ts';
import type { EndedSpan } from '../../src/traces/recorded-span.ts';
import { makeGate } from '../support/gate.ts';
import { waitFor } from '../support/wait.ts';

const test = suite('exporter of spans');
const ACCEPTED: Delivery = { type: 'accepted', rejectedSpans: 0 };
const RETRY: Delivery = { type: 'retry', reason: 'ECONNREFUSED', afterMs: 0 };

function span(name: string): EndedSpan {
  return {
    context: { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), sampled: true, state: null },
    parentId: null,
    name,
    kind: 'internal',
    startedAt: 1,
    endedAt: 2,
    attributes: new Map(),
    hasFailed: false,
  };
}

function start(
  answers: (sent: number, signal: AbortSignal) => Delivery | Promise<Delivery>,
  limits: Partial<ExporterLimits> = {},
) {
  const batches: string[][] = [];
  const states: (string | null)[] = [];
  const exporter = new Exporter({
    send: async (spans, signal) => {
      batches.push(spans.map(({ name }) => name));
      return await answers(batches.length, signal);
    },
    onState: (failure) => states.push(failure),
    limits: { delayMs: 1, ...limits },
  });
  const add = (names: string): void => [...names].forEach((name) => exporter.add(span(name)));
  return { exporter, batches, states, add };
}

test('spans go in batches, one export at a time', async () => {
  const gate = makeGate();
  const { exporter, batches, add } = start(async () => (await gate.opened, ACCEPTED), { batch: 3 });
  add('abcd');
  await waitFor('the first batch', () => batches.length === 1);
  add('efg');
  gate.open();
  await waitFor('the rest', () => exporter.counts.exported === 7);
  assert.equal(batches, [['a', 'b', 'c'], ['d', 'e', 'f'], ['g']]);
  await exporter.close(1000);
});

test('a full queue drops new spans and counts them', async () => {
  const { exporter, batches, add } = start(() => ACCEPTED, { queued: 3, delayMs: 60_000 });
  add('abcde');
  await exporter.close(1000);
  assert.equal(batches, [['a', 'b', 'c']]);
  assert.equal(exporter.counts, { exported: 3, dropped: 2 });
  add('f');
  assert.is(exporter.counts.dropped, 3, 'nothing is taken after the end');
  await exporter.close(1000);
});

test('a batch that fails is sent again; the failure is told once, and its end', async () => {
  const { exporter, batches, states, add } = start((sent) => (sent < 4 ? RETRY : ACCEPTED));
  add('ab');
  await waitFor('the export', () => exporter.counts.exported === 2);
  assert.equal(batches, Array<string[]>(4).fill(['a', 'b']));
  assert.equal(states, ['ECONNREFUSED', null]);
  await exporter.close(1000);
});

test('a refused batch is dropped, and the next ones are sent', async () => {
  const { exporter, states, add } = start((sent) =>
    sent === 1 ? { type: 'refused', reason: 'status 400' } : ACCEPTED,
  );
  add('ab');
  await waitFor('the refusal', () => exporter.counts.dropped === 2);
  add('c');
  await waitFor('the next', () => exporter.counts.exported === 1);
  assert.equal(states, ['status 400', null]);
  await exporter.close(1000);
});

test('spans that the collector rejects within an accepted batch count as dropped', async () => {
  const { exporter, add } = start(() => ({ type: 'accepted', rejectedSpans: 2 }), { delayMs: 60_000 });
  add('abc');
  await exporter.close(1000);
  assert.equal(exporter.counts, { exported: 1, dropped: 2 });
});

test('the end waits only for its limit, and for no second attempt', async () => {
  const silent = start(() => new Promise(() => undefined), { delayMs: 60_000 });
  silent.add('ab');
  await silent.exporter.close(1);
  assert.equal(silent.exporter.counts, { exported: 0, dropped: 2 });
  const failing = start(() => RETRY, { delayMs: 60_000 });
  failing.add('ab');
  await failing.exporter.close(60_000);
  assert.equal([failing.batches.length, failing.exporter.counts.dropped], [1, 2]);
});

test.run();
