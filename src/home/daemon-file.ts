/**
 * `daemon.json`: facts about the daemon that can be read without a connection. The daemon writes the file when it
 * starts and, as its last action, how it ended. After a crash, kill -9 or a power failure the file has `exit: null`
 * although no daemon runs. While it runs, the daemon updates the file's time, which shows when it was last alive.
 */
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { readText, readTextSync } from '../files/open-file.ts';
import { orElse, parsedJson } from '../protocol/foreign-text.ts';

const nullableText = v.nullable(v.string());

const LastExitSchema = v.object({
  code: v.nullable(v.number()),
  signal: nullableText,
  at: v.string(),
  reason: v.string(),
});

const DaemonFileSchema = v.object({
  pid: v.number(),
  /** Distinguishes it from a later process with the same pid. */
  process: v.nullish(v.object({ boot_id: v.string(), start_ticks: v.number() })),
  mode: v.picklist(['background', 'foreground', 'service']),
  version: v.string(),
  http: nullableText,
  grpc: nullableText,
  /** Absent in the files of older daemons. */
  ollama: v.optional(nullableText, null),
  socket: v.string(),
  log_path: v.string(),
  started_at: v.string(),
  /** Variables of its settings, for `svc restart` (process/environment.ts). Absent in the files of older daemons. */
  settings: v.optional(v.record(v.string(), v.string())),
  /** How this daemon ended. */
  exit: v.nullable(LastExitSchema),
  /** How the previous daemon ended. */
  last_exit: v.nullable(LastExitSchema),
});
export type DaemonFile = v.InferOutput<typeof DaemonFileSchema>;

/** Reads the file. null: no daemon has ever run here, or the file is unreadable or invalid. */
export function readDaemonFile(path: string): DaemonFile | null {
  return orElse(() => parseDaemonFile(readTextSync(path)), null);
}

/** As `readDaemonFile`, but asynchronous. Rejects with the error of the file system. */
export async function loadDaemonFile(path: string): Promise<DaemonFile | null> {
  return parseDaemonFile(await readText(path));
}

function parseDaemonFile(text: string): DaemonFile | null {
  const result = v.safeParse(DaemonFileSchema, parsedJson(text));
  return result.success ? result.output : null;
}

/** Atomic: a reader sees the old file or the new one. */
export async function writeDaemonFile(path: string, file: DaemonFile): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 });
}
