/**
 * What the addon and this machine can do, found out in a short-lived child: loading a broken addon
 * or a GPU driver may crash a process, and that is an answer here, not an accident.
 */
import { SvcError } from '../protocol/errors.ts';
import { askChild } from './ask-child.ts';
import type { ProbeFacts } from './frames.ts';
import type { SpawnOptions } from './spawn.ts';

export interface ProbeOptions extends SpawnOptions {
  /** Run a kernel on each device and report its GFLOP/s (up to a second a device). */
  readonly measure: boolean;
  /** Default 60,000. */
  readonly timeoutMs?: number;
}

/** `error` is set when anything failed; the rest is what was found out before that. */
export interface EngineProbe extends ProbeFacts {
  /** The last that the child wrote to standard error. */
  readonly stderr: string;
}

const NOTHING: ProbeFacts = { addon: null, devices: [], cpuFeatures: null, log: [], error: null };

/** Never rejects. */
export async function probeEngine({ measure, timeoutMs = 60_000, ...child }: ProbeOptions): Promise<EngineProbe> {
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
      hint: 'reinstall svc-runtime; if it happens at a GPU, update its driver',
    });
    return { ...facts, error: error.toRecord(), stderr };
  } catch (error) {
    return { ...NOTHING, error: SvcError.from(error).toRecord(), stderr: '' };
  }
}
