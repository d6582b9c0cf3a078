/** What is new in an answer that is made again, cut into other pieces. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { GenerateEvent, RouteEvent } from '../../src/protocol/generate.ts';
import { Remainder } from '../../src/responses/background/remainder.ts';

type AnyEvent = RouteEvent | GenerateEvent;

interface Told {
  reasoning: string;
  text: string;
  calls: string[];
  tokens: number[];
  starts: number;
  logprobs: number;
}

function tell(events: Iterable<AnyEvent>): Told {
  const told: Told = { reasoning: '', text: '', calls: [], tokens: [], starts: 0, logprobs: 0 };
  for (const event of events) {
    if (event.type === 'start') told.starts += 1;
    if (event.type === 'text' || event.type === 'reasoning') told[event.type] += event.text;
    if (event.type === 'text') told.logprobs += event.logprobs?.length ?? 0;
    if (event.type === 'tool_call') {
      if (event.id !== undefined) told.calls[event.index] = `${event.id} ${event.name ?? ''} `;
      told.calls[event.index] = `${told.calls[event.index] ?? ''}${event.arguments}`;
    }
    if ('tokens' in event) told.tokens.push(...(event.tokens ?? []));
  }
  return told;
}

/** A generator of numbers that a seed repeats (mulberry32). */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** One answer, a character a token, cut at random; ids of calls are new in each run. */
function answer(pick: (below: number) => number): AnyEvent[] {
  const events: AnyEvent[] = [{ type: 'start', model: 'm', provider: 'local' }];
  let token = 0;
  const pieces = (whole: string): string[] => {
    const found: string[] = [];
    for (let at = 0; at < whole.length;) {
      const length = 1 + pick(4);
      found.push(whole.slice(at, at + length));
      at += length;
    }
    return found;
  };
  const tokensOf = (piece: string): { tokens: number[] } => ({ tokens: [...piece].map(() => token++) });
  const add = (type: 'text' | 'reasoning', whole: string): void => {
    for (const text of pieces(whole)) events.push({ type, text, ...tokensOf(text) });
  };
  add('reasoning', 'let me think about it');
  add('text', 'I will look it up. ');
  for (const index of [0, 1]) {
    events.push({ type: 'tool_call', index, id: `id${String(pick(1e6))}`, name: 'look', arguments: '' });
    for (const piece of pieces('{"word": "svc"}')) {
      events.push({ type: 'tool_call', index, arguments: piece, ...tokensOf(piece) });
    }
  }
  add('text', ' Done.');
  return events;
}

test('what was told and the remainder are the whole answer, wherever it was cut', () => {
  let cuts = 0;
  for (let seed = 1; seed <= 40; seed++) {
    const whole = answer(random(seed));
    for (let cut = 0; cut <= whole.length; cut++) {
      const told = whole.slice(0, cut);
      const again = answer(random(seed * 1000 + cut));
      const remainder = new Remainder(told);
      const rest = again.map((event) => remainder.of(event)).filter((event) => event !== null);
      const { calls, ...all } = tell([...told, ...rest]);
      const { calls: expectedCalls, ...expected } = tell(whole);
      assert.equal(all, expected);
      const withoutIds = (call: string): string => call.replace(/^id\d+ /, '');
      assert.equal(calls.map(withoutIds), expectedCalls.map(withoutIds));
      // The id that was told stays.
      const toldCalls = tell(told).calls;
      for (const [index, call] of toldCalls.entries()) assert.ok(calls[index]?.startsWith(call));
      cuts += 1;
    }
  }
  assert.ok(cuts > 1000);
});

test('tokens are told with content, and none is told twice', () => {
  const remainder = new Remainder([{ type: 'text', text: 'abc', tokens: [1, 2] }]);
  // Token 3 is new, but all of its text was told.
  assert.is(remainder.of({ type: 'text', text: 'abc', tokens: [1, 2, 3] }), null);
  assert.equal(remainder.of({ type: 'text', text: 'd', tokens: [4] }), { type: 'text', text: 'd', tokens: [3, 4] });
});

test('log probabilities of what was told are left out', () => {
  const logprob = (token: string): any => ({ token, bytes: [], logprob: 0, top: [] });
  const remainder = new Remainder([{ type: 'text', text: 'ab', logprobs: [logprob('a'), logprob('b')] }]);
  const rest = remainder.of({ type: 'text', text: 'abc', logprobs: ['a', 'b', 'c'].map(logprob) });
  assert.equal(rest, { type: 'text', text: 'c', logprobs: [logprob('c')] });
});

test.run();
