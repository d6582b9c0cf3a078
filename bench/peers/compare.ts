/** Measures one model: its servers are started together and take turns. */
import { basename } from 'node:path';
import { LiveWatch } from './live-watch.ts';
import type { Progress } from './progress.ts';
import type { Measured, Result } from './results.ts';
import type { Scenario } from './scenario.ts';
import type { Server, ServerName, ServerOptions } from './servers/server.ts';
import { start } from './servers/start.ts';

const SVC: ServerName = 'svc';

export interface Comparison {
  readonly scenarios: readonly Scenario[];
  readonly repetitions: number;
  readonly options: ServerOptions;
  readonly progress: Progress;
  /** Running servers, to be stopped if the run is interrupted. */
  readonly running: Set<Server>;
  /** Command line of each server. */
  readonly commands: Set<string>;
  /** Called with the result of each scenario, and of `/livez`. */
  onResult(result: Result): Promise<void>;
}

/** Error: why the server did not start. */
type Servers = Map<ServerName, Server | Error>;

/** Number of turns of a scenario. */
export const turnsOf = ({ servers, isOnce = false }: Scenario, repetitions: number): number =>
  servers.length * (isOnce ? 1 : repetitions);

/** Runs all scenarios. Failures, also of a server's start, are reported as results. */
export async function compare(comparison: Comparison): Promise<void> {
  const { scenarios, options, running, commands, onResult } = comparison;
  const files = [options.model, ...(options.projector === undefined ? [] : [options.projector])];
  const model = files.map((file) => basename(file)).join(' with ');
  const servers: Servers = new Map();
  try {
    for (const name of new Set(scenarios.flatMap((scenario) => scenario.servers))) {
      try {
        const server = await start(name, options);
        servers.set(name, server);
        running.add(server);
        commands.add(server.command);
      } catch (error) {
        servers.set(name, new Error(`the server did not start: ${(error as Error).message}`));
      }
    }
    const svc = servers.get(SVC);
    const watch = svc === undefined || svc instanceof Error ? null : new LiveWatch(svc.url);
    for (const scenario of scenarios) await onResult(await measure(model, scenario, servers, comparison));
    if (watch !== null) await onResult(await live(model, watch));
  } finally {
    await Promise.all([...running].map((server) => server.stop()));
    running.clear();
  }
}

/** Measures a scenario; each repetition begins with another server. */
async function measure(
  model: string,
  scenario: Scenario,
  servers: Servers,
  { repetitions, progress }: Comparison,
): Promise<Result> {
  const { name, figures, seconds, servers: asked } = scenario;
  const measured: Measured[] = [];
  const turns = turnsOf(scenario, repetitions);
  for (let n = 0; n < turns; n += 1) {
    const repetition = Math.floor(n / asked.length);
    const turn = asked[(repetition + n) % asked.length] as ServerName;
    const server = servers.get(turn) as Server | Error;
    const outcome = await attempt(() => (server instanceof Error ? Promise.reject(server) : scenario.measure(server)));
    measured.push({ server: turn, repetition, ...outcome });
    const told =
      outcome.error ?? outcome.figures?.map((figure) => (figure === null ? '–' : figure.toFixed(2))).join(', ');
    progress.done(seconds, `${model}, ${name}, ${turn}: ${told ?? ''}`);
  }
  return { model, scenario: name, figures, measured };
}

async function live(model: string, watch: LiveWatch): Promise<Result> {
  return {
    model,
    scenario: '`/livez` while all of this ran',
    figures: [{ name: 'p99', unit: 'ms', isMoreBetter: false, bars: [{ limit: 20 }] }],
    measured: [{ server: SVC, repetition: 0, ...(await attempt(async () => [await watch.stop()])) }],
  };
}

async function attempt(
  measure: () => Promise<readonly (number | null)[]>,
): Promise<Pick<Measured, 'figures' | 'error'>> {
  try {
    return { figures: await measure(), error: null };
  } catch (error) {
    return { figures: null, error: (error as Error).message };
  }
}
