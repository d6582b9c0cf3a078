/** Every fault, family by family: the rows of docs/reliability.md in their order. */
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

export const FAULTS: readonly Fault[] = [
  ...ENGINE,
  ...DAEMON,
  ...BACKGROUND,
  ...FILES,
  ...PLACES_SPOILED,
  ...DISK,
  ...MODELS,
  ...SETTINGS,
  ...NETWORK,
  ...DOORS,
  ...PROVIDERS,
  ...LIMITS,
];
