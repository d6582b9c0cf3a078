/**
 * Tool calls of a history that have no result so far. Each method takes constant time, on average: a history may have
 * tens of thousands of calls. Hence the lines beside the map: to find its first entry, a Map steps over every entry that
 * was deleted before it.
 */
import type { ToolCall } from '../generate.ts';

export type OpenCall = Pick<ToolCall, 'id' | 'name'>;

export class OpenCalls {
  readonly #byId = new Map<string, OpenCall>();
  readonly #all = new Line(this.#byId);
  readonly #ofTools = new Map<string, Line>();

  /** Takes the place of an open call with the same id. */
  add(call: OpenCall): void {
    this.#byId.set(call.id, call);
    this.#all.add(call);
    const line = this.#ofTools.get(call.name) ?? new Line(this.#byId);
    line.add(call);
    this.#ofTools.set(call.name, line);
  }

  withId(id: string): OpenCall | undefined {
    return this.#byId.get(id);
  }

  firstOf(tool: string): OpenCall | undefined {
    return this.#ofTools.get(tool)?.first;
  }

  get first(): OpenCall | undefined {
    return this.#all.first;
  }

  /** The call has its result. */
  close({ id }: OpenCall): void {
    this.#byId.delete(id);
  }
}

/** Calls in their order. A closed one is passed over when its turn comes. */
class Line {
  readonly #open: ReadonlyMap<string, OpenCall>;
  readonly #calls: OpenCall[] = [];
  #next = 0;

  /** `open`: by id. */
  constructor(open: ReadonlyMap<string, OpenCall>) {
    this.#open = open;
  }

  add(call: OpenCall): void {
    this.#calls.push(call);
  }

  get first(): OpenCall | undefined {
    let call = this.#calls[this.#next];
    while (call !== undefined && this.#open.get(call.id) !== call) call = this.#calls[++this.#next];
    return call;
  }
}
