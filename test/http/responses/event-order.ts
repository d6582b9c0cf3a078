/** The order of the events of a response, as a state machine, and what they add up to. */
import * as assert from 'uvu/assert';

interface Event {
  readonly type: string;
  readonly sequence_number: number;
  readonly [field: string]: any;
}

interface Item {
  readonly id: string;
  readonly type: string;
  readonly [field: string]: any;
}

/** State of an item that is not done. */
interface Open {
  readonly item: Item;
  /** Text of its part so far; null: no part has begun. */
  text: string | null;
  isPartDone: boolean;
}

const ENDS = ['response.completed', 'response.incomplete', 'response.failed', 'response.cancelled'];
const BEGIN_PART = /^response\.(content_part|reasoning_summary_part)\.added$/;
const END_PART = /^response\.(content_part|reasoning_summary_part)\.done$/;
const DELTA = /^response\.(output_text|reasoning_text|reasoning_summary_text|function_call_arguments)\.delta$/;
const WHOLE = /^response\.(output_text|reasoning_text|reasoning_summary_text|function_call_arguments)\.done$/;

/** Checks a whole stream; returns the types in their order, and the response of the last event. */
export function checkEvents(events: readonly object[]): { types: string[]; response: any } {
  const all = events as readonly Event[];
  assert.equal(
    all.map(({ sequence_number }) => sequence_number),
    all.map((_, index) => index),
  );
  const [created, progress, ...rest] = all;
  const last = rest.pop();
  assert.is(created?.type, 'response.created');
  assert.is(progress?.type, 'response.in_progress');
  for (const { response } of [created!, progress!])
    assert.equal([response.status, response.output], ['in_progress', []]);
  assert.ok(last !== undefined && ENDS.includes(last.type), last?.type);
  const output = checkItems(rest);
  assert.is(last.type, `response.${String(last['response'].status)}`);
  assert.equal(last['response'].output, output);
  assert.is(last['response'].id, created!['response'].id);
  return { types: all.map(({ type }) => type), response: last['response'] };
}

function checkItems(events: readonly Event[]): Item[] {
  const open = new Map<number, Open>();
  const output: Item[] = [];
  for (const event of events) {
    if (event.type === 'response.in_progress') {
      assert.equal(event['response'].output.map(idOf), output.map(idOf));
      continue;
    }
    const index = Number(event['output_index']);
    if (event.type === 'response.output_item.added') {
      assert.is(index, output.length);
      assert.is(event['item'].status, 'in_progress');
      output.push(event['item']);
      open.set(index, { item: event['item'], text: null, isPartDone: false });
      continue;
    }
    const state = open.get(index);
    assert.ok(state !== undefined, `${event.type} of an item that is not open`);
    if (event.type === 'response.output_item.done') {
      checkDone(event['item'], state);
      output[index] = event['item'];
      open.delete(index);
      continue;
    }
    assert.is(event['item_id'], state.item.id);
    checkPart(event, state);
  }
  assert.is(open.size, 0);
  return output;
}

const idOf = ({ id }: Item): string => id;

function checkPart(event: Event, state: Open): void {
  const isCall = state.item.type === 'function_call';
  if (!isCall) assert.is(event['content_index'] ?? event['summary_index'], 0);
  if (BEGIN_PART.test(event.type)) {
    assert.is(state.text, null);
    assert.is(event['part'].text, '');
    state.text = '';
  } else if (DELTA.test(event.type)) {
    if (isCall) state.text ??= '';
    assert.ok(state.text !== null && event['delta'] !== '', event.type);
    state.text += String(event['delta']);
  } else if (WHOLE.test(event.type)) {
    assert.is(event['text'] ?? event['arguments'], state.text ?? '');
    if (isCall) state.isPartDone = true;
  } else {
    assert.match(event.type, END_PART);
    assert.is(event['part'].text, state.text);
    state.isPartDone = true;
  }
}

function checkDone(item: Item, { item: begun, text, isPartDone }: Open): void {
  assert.ok(isPartDone);
  assert.is.not(item['status'], 'in_progress');
  assert.is(item.id, begun.id);
  const [part] = item['content'] ?? item['summary'] ?? [{ text: item['arguments'] }];
  const [shown] = item.type === 'reasoning' && item['content'] === undefined ? item['summary'] : [part];
  assert.is(shown.text, text ?? '');
}
