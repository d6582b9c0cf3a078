/**
 * `daemon.json`: what can be known of the daemon without asking it. The daemon writes the file when
 * it starts and, as its last act, how it ended; one that could not do so (a crash, kill -9, the
 * power) leaves `exit: null`, and whoever finds that with no daemon there knows it did not end well.
 * While it lives the daemon touches the file, so that its time tells when it was last alive.
 */
import { readFileSync } from 'node:fs';
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
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
    const result = v.safeParse(DaemonFileSchema, JSON.parse(readFileSync(path, 'utf8')));
    return result.success ? result.output : null;
  } catch {
    return null;
  }
}

/** Atomic: a reader sees the old file or the new one. */
export function writeDaemonFile(path: string, file: DaemonFile): void {
  writeFileAtomic.sync(path, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 });
}
