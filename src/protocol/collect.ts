/** Joins the events of an answer, for callers that do not stream. */
import type { GenerateEvent, RouteEvent, TokenLogprobs, ToolCall } from './generate.ts';

export class Collector {
  text = '';
  reasoning = '';
  readonly logprobs: TokenLogprobs[] = [];
  readonly #calls: { id: string; name: string; arguments: string }[] = [];

  add(event: RouteEvent | GenerateEvent): void {
    if (event.type === 'text') {
      this.text += event.text;
      this.logprobs.push(...(event.logprobs ?? []));
    } else if (event.type === 'reasoning') this.reasoning += event.text;
    else if (event.type === 'tool_call') {
      const call = (this.#calls[event.index] ??= { id: '', name: '', arguments: '' });
      call.id ||= event.id ?? '';
      call.name ||= event.name ?? '';
      call.arguments += event.arguments;
    }
  }

  get toolCalls(): readonly ToolCall[] {
    return this.#calls.filter((call) => call.name !== '');
  }
}
