/** W3C Trace Context: what is accepted, what is ignored, and what is passed on. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseTraceContext, traceHeaders } from '../../src/protocol/traces/context.ts';
import { NO_TRACES } from '../../src/protocol/traces/span.ts';
import { RecordingTracer } from '../../src/traces/tracer.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const PARENT = `00-${TRACE}-${SPAN}-01`;
const context = (traceparent: string, tracestate?: string) => parseTraceContext({ traceparent, tracestate });

test('a valid traceparent is read', () => {
  assert.equal(context(PARENT), { traceId: TRACE, spanId: SPAN, sampled: true, state: null });
  assert.is(context(`00-${TRACE}-${SPAN}-00`)?.sampled, false);
  assert.is(context(`00-${TRACE}-${SPAN}-02`)?.sampled, false);
  assert.is(context(`00-${TRACE}-${SPAN}-03`)?.sampled, true);
  assert.is(context(`cc-${TRACE}-${SPAN}-01`)?.traceId, TRACE, 'a later version');
  assert.is(context(`cc-${TRACE}-${SPAN}-01-what-ever`)?.traceId, TRACE, 'a later version with more fields');
});

test('an invalid traceparent is ignored, with its tracestate', () => {
  for (const text of [
    '',
    'x',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-01-`,
    `cc-${TRACE}-${SPAN}-01.more`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-1`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.slice(1)}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}g-01`,
    ` ${PARENT}`,
    `${PARENT}, ${PARENT}`,
    `${PARENT}\n`,
  ])
    assert.is(context(text, 'a=1'), null, JSON.stringify(text));
  assert.is(parseTraceContext({ tracestate: 'a=1' }), null);
});

test('a valid tracestate is passed on, an invalid one alone is ignored', () => {
  const stateOf = (tracestate: string) => context(PARENT, tracestate)?.state;
  for (const text of [
    'a=1',
    'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
    'fw529a3039@dt=FfYdeUB',
    `a=${'x'.repeat(256)}`,
  ])
    assert.is(stateOf(text), text);
  assert.is(stateOf('a=1 , \t b=2,,'), 'a=1,b=2');
  const many = Array.from({ length: 33 }, (_, index) => `k${String(index)}=1`);
  assert.is(stateOf(many.slice(1).join(',')), many.slice(1).join(','));
  for (const text of ['', ',', 'a', 'a=', '=1', 'A=1', 'a=1,a=2', 'a b=1', 'a=b=c', 'a=\u0001', 'a=ü', many.join(',')])
    assert.is(stateOf(text), null, text);
  assert.is(stateOf(`a=${'x'.repeat(257)}`), null);
  assert.is(stateOf(`a=${'x'.repeat(254)},b=${'x'.repeat(254)},c=1`), null);
  assert.is(stateOf(' '.repeat(16_000) + 'a'), null);
});

test('headers are written as they are read', () => {
  const headers = { traceparent: PARENT, tracestate: 'a=1,b=2' };
  assert.equal(traceHeaders(parseTraceContext(headers)!), headers);
});

const START = { requestId: 'f'.repeat(32), name: 'POST /', attributes: {} };

test('without traces the context of the client is passed on, and nothing if there is none', () => {
  const span = NO_TRACES.begin({ ...START, headers: { traceparent: PARENT, tracestate: 'a=1' } });
  assert.equal(span.child('a', 'client').headers(), { traceparent: PARENT, tracestate: 'a=1' });
  assert.is(span.traceId, TRACE);
  const alone = NO_TRACES.begin({ ...START, headers: {} });
  assert.equal([alone.headers(), alone.traceId], [{}, START.requestId]);
});

test("the client's decision comes first, then the ratio; a child belongs to its parent", () => {
  const ended: string[] = [];
  const begin = (ratio: number, traceparent?: string, requestId = START.requestId) =>
    new RecordingTracer(ratio, ({ context: { traceId }, parentId }) =>
      ended.push(`${traceId} ${String(parentId)}`),
    ).begin({
      ...START,
      requestId,
      headers: { traceparent },
    });
  begin(0, PARENT).end();
  assert.equal(ended.splice(0), [`${TRACE} ${SPAN}`]);
  const quiet = begin(1, `00-${TRACE}-${SPAN}-00`);
  quiet.child('a', 'client').end();
  quiet.end();
  assert.is(quiet.headers()['traceparent'], `00-${TRACE}-${SPAN}-00`);
  const left = begin(0);
  left.end();
  assert.is(left.headers()['traceparent'], `00-${START.requestId}-${START.requestId.slice(16)}-00`);
  assert.equal(ended.splice(0), []);

  const half = `${'f'.repeat(19)}7${'f'.repeat(12)}`;
  begin(0.5, undefined, half).end();
  begin(0.5).end();
  assert.equal(ended.splice(0), [`${half} null`]);

  const span = begin(1);
  const child = span.child('a', 'client');
  child.end();
  child.end();
  const parentId = span.headers()['traceparent']?.split('-')[2] ?? '';
  assert.equal(ended, [`${START.requestId} ${parentId}`]);
});

test.run();
