/**
 * `daemon.json`: what can be known of the daemon without asking it. The daemon writes the file when
 * it starts and, as its last act, how it ended; one that could not do so (a crash, kill -9, the
 * power) leaves `exit: null`, and whoever finds that with no daemon there knows it did not end well.
 * While it lives the daemon touches the file, so that its time tells when it was last alive.
 */
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { readText, readTextSync } from '../files/open-file.ts';
import { ProcessIdentitySchema } from './process-identity.ts';

const nullableText = v.nullable(v.string());

const LastExitSchema = v.object({
  code: v.nullable(v.number()),
  signal: nullableText,
  at: v.string(),
  reason: v.string(),
});

const DaemonFileSchema = v.object({
  pid: v.number(),
  /** What tells it from a later process of the same pid. */
  process: v.nullish(ProcessIdentitySchema),
  mode: v.picklist(['background', 'foreground', 'service']),
  version: v.string(),
  http: nullableText,
  grpc: nullableText,
  socket: v.string(),
  log_path: v.string(),
  started_at: v.string(),
  /** How this daemon ended. */
  exit: v.nullable(LastExitSchema),
  /** How the one before it ended. */
  last_exit: v.nullable(LastExitSchema),
});
export type DaemonFile = v.InferOutput<typeof DaemonFileSchema>;

/** null: no daemon has ever run here, or the file can't be read as one. */
export function readDaemonFile(path: string): DaemonFile | null {
  try {
    return parseDaemonFile(readTextSync(path));
  } catch {
    return null;
  }
}

/** As `readDaemonFile`, without keeping the process waiting. Rejects with the error of the file system. */
export async function loadDaemonFile(path: string): Promise<DaemonFile | null> {
  return parseDaemonFile(await readText(path));
}

function parseDaemonFile(text: string): DaemonFile | null {
  try {
    const result = v.safeParse(DaemonFileSchema, JSON.parse(text));
    return result.success ? result.output : null;
  } catch {
    return null;
  }
}

/** Atomic: a reader sees the old file or the new one. */
export async function writeDaemonFile(path: string, file: DaemonFile): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 });
}
