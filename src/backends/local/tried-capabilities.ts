/** What models turned out to be able to do when they were loaded, since the daemon started. */
import type { EngineInfo } from '../../engine/messages.ts';
import type { Capability, ModelRecord } from '../../protocol/records.ts';

export class TriedCapabilities {
  readonly #found = new Map<string, readonly Capability[]>();

  /** `path`: the loaded file. */
  note(path: string, { calls_tools, thinks }: EngineInfo): void {
    this.#found.set(path, [...(calls_tools ? ['tools' as const] : []), ...(thinks ? ['thinking' as const] : [])]);
  }

  /** The record's capabilities and those found. */
  of({ path, capabilities }: ModelRecord): readonly Capability[] {
    return [...capabilities, ...(this.#found.get(path) ?? [])];
  }
}
