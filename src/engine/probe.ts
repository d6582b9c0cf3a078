/**
 * Probes the addon and this machine in a short-lived child process: loading a broken addon or GPU driver may crash it,
 * which is a valid result here.
 */
import { SvcError } from '../protocol/errors.ts';
import { askChild } from './ask-child.ts';
import type { ProbeFacts } from './messages.ts';
import type { SpawnOptions } from './spawn.ts';

export interface ProbeOptions extends SpawnOptions {
  /** Runs a kernel on each device and reports GFLOP/s (up to a second per device). */
  readonly measure: boolean;
  /** Default: 60,000; 150,000 if it measures, for which a GPU's driver compiles shaders (10 s of processor time). */
  readonly timeoutMs?: number;
}

/** `error`: set if anything failed; the rest was found before. */
export interface EngineProbe extends ProbeFacts {
  /** End of the child's stderr. */
  readonly stderr: string;
}

const NOTHING: ProbeFacts = { addon: null, devices: [], cpuFeatures: null, log: [], error: null };

/** Never rejects. */
export async function probeEngine({
  measure,
  timeoutMs = measure ? 150_000 : 60_000,
  ...child
}: ProbeOptions): Promise<EngineProbe> {
  let facts = NOTHING;
  let doing = 'starting';
  try {
    const { answer, end, stderr } = await askChild({
      ...child,
      ask: { type: 'probe', measure, parentPid: process.pid },
      timeoutMs,
      read(message) {
        if (message.type !== 'probed') return undefined;
        facts = message.facts;
        doing = message.next ?? doing;
        return message.next === null ? facts : undefined;
      },
    });
    if (answer !== undefined) return { ...answer, stderr };
    const error = new SvcError('ENGINE_CRASHED', `the engine process ${end} while ${doing}`, {
      hint: 'reinstall svc-runtime; if it happens on a GPU, update the GPU driver',
    });
    return { ...facts, error: error.toRecord(), stderr };
  } catch (error) {
    return { ...NOTHING, error: SvcError.from(error).toRecord(), stderr: '' };
  }
}
