/**
 * Tool calls of a history that have no result so far. Servers send calls without an id, or several with the same one;
 * here each open call has an id of its own, because templates and providers tell them apart by it. Each method takes
 * constant time, on average: a history may have tens of thousands of calls. Hence the lines beside the map: to find its
 * first entry, a Map steps over every entry that was deleted before it.
 */
import type { ToolCall } from '../generate.ts';

export type OpenCall = Pick<ToolCall, 'id' | 'name'>;

export class OpenCalls {
  /** By their own ids. */
  readonly #open = new Map<string, OpenCall>();
  readonly #all = new Line(this.#open);
  /** By the client's ids. */
  readonly #withIds = new Map<string, Line>();
  readonly #ofTools = new Map<string, Line>();
  /** The client's ids in this turn. */
  readonly #inTurn = new Set<string>();
  #count = 0;

  /**
   * Returns the call; with a new id if the client's is empty or that of another open call. Open calls of earlier turns
   * with the client's id get no result any more: this call takes their place.
   */
  add<Call extends OpenCall>(call: Call): Call {
    const { id, name } = call;
    const line = this.#lineOf(this.#withIds, id);
    if (!this.#inTurn.has(id)) for (let old = line.first; old !== undefined; old = line.first) this.close(old);
    this.#inTurn.add(id);
    const added = id === '' || this.#open.has(id) ? { ...call, id: this.#newId() } : call;
    this.#open.set(added.id, added);
    for (const each of [this.#all, line, this.#lineOf(this.#ofTools, name)]) each.add(added);
    return added;
  }

  /** Ends the assistant's turn. Called for each message that is not the assistant's. */
  endTurn(): void {
    this.#inTurn.clear();
  }

  /** The first call with the client's id; undefined also for an empty one. */
  withId(id: string): OpenCall | undefined {
    return id === '' ? undefined : this.#withIds.get(id)?.first;
  }

  firstOf(tool: string): OpenCall | undefined {
    return this.#ofTools.get(tool)?.first;
  }

  get first(): OpenCall | undefined {
    return this.#all.first;
  }

  /** Closes and returns the call that a result with the client's id answers; empty or absent: the first. */
  answered(id = ''): OpenCall | undefined {
    const call = id === '' ? this.first : this.withId(id);
    if (call !== undefined) this.close(call);
    return call;
  }

  /** The call has its result. */
  close({ id }: OpenCall): void {
    this.#open.delete(id);
  }

  #lineOf(lines: Map<string, Line>, key: string): Line {
    const line = lines.get(key) ?? new Line(this.#open);
    lines.set(key, line);
    return line;
  }

  #newId(): string {
    let id: string;
    // Nine letters and digits: the form that every template accepts.
    do id = `call${String(++this.#count).padStart(5, '0')}`;
    while (this.#open.has(id));
    return id;
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
