/** Every fault, family by family: the rows of docs/reliability.md in their order. */
import { readFileSync } from 'node:fs';
import type { Fault } from './fault.ts';
import { BACKGROUND } from './faults/background.ts';
import { DAEMON } from './faults/daemon.ts';
import { DISK } from './faults/disk.ts';
import { DOORS } from './faults/doors.ts';
import { ENGINE } from './faults/engine.ts';
import { FILES } from './faults/files.ts';
import { LIMITS } from './faults/limits.ts';
import { MODELS } from './faults/models.ts';
import { NETWORK } from './faults/network.ts';
import { PLACES_SPOILED } from './faults/places.ts';
import { PROVIDERS } from './faults/providers.ts';
import { SETTINGS } from './faults/settings.ts';

/** By the file in `faults/` that declares them. */
const FAMILIES: Readonly<Record<string, readonly Fault[]>> = {
  engine: ENGINE,
  daemon: DAEMON,
  background: BACKGROUND,
  files: FILES,
  places: PLACES_SPOILED,
  disk: DISK,
  models: MODELS,
  settings: SETTINGS,
  network: NETWORK,
  doors: DOORS,
  providers: PROVIDERS,
  limits: LIMITS,
};

export const FAULTS: readonly Fault[] = Object.values(FAMILIES).flat();

const SOURCES: ReadonlyMap<string, string> = new Map(
  Object.entries(FAMILIES).flatMap(([file, faults]) => {
    const source = readFileSync(new URL(`faults/${file}.ts`, import.meta.url), 'utf8');
    return faults.map(({ name }): [string, string] => [name, source]);
  }),
);

/** Text of the file that declares the fault; undefined if there is no such fault. */
export function sourceOf(name: string): string | undefined {
  return SOURCES.get(name);
}
