/** Results of a run, saved after each scenario so that an interrupted run can be reported. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Figure } from './scenario.ts';
import type { ServerName } from './servers/server.ts';

/** One turn of one server. */
export interface Measured {
  readonly server: ServerName;
  readonly repetition: number;
  /** In the order of the scenario's figures; a null element: not applicable to this server. null: the turn failed. */
  readonly figures: readonly (number | null)[] | null;
  readonly error: string | null;
}

export interface Result {
  /** Name of the model file. */
  readonly model: string;
  readonly scenario: string;
  readonly figures: readonly Figure[];
  readonly measured: readonly Measured[];
}

export interface Results {
  /** Heading of its section. */
  readonly heading: string;
  readonly machine: string;
  /** RFC 3339. */
  readonly startedAt: string;
  readonly repetitions: number;
  /** Command line of each server. */
  readonly commands: readonly string[];
  /** Number of results of a complete run. */
  readonly planned: number;
  readonly seconds: number;
  readonly results: readonly Result[];
}

export async function saveResults(path: string, results: Results): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, JSON.stringify(results, null, 1));
}

export async function readResults(path: string): Promise<Results> {
  return JSON.parse(await readFile(path, 'utf8')) as Results;
}
