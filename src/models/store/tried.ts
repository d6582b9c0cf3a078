/**
 * What loads have found models able to do, by the digests of their files: one file in the state directory. It is not
 * in the registry, because the built-in model has no entry there, and because the daemon must not write to a directory
 * of models that is read-only or was moved away.
 *
 * A file that cannot be read counts as empty: the next load finds the same again.
 */
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { readText } from '../../files/open-file.ts';
import { TRIED_CAPABILITIES, type ModelRecord, type TriedCapability } from '../../protocol/records.ts';

export interface TriedPlace {
  /** Its directory must exist for the file to be written. */
  readonly path: string;
  /** Version of svc and its llama.cpp. What another version has found is ignored: it may try in another way. */
  readonly version: string;
}

const FileSchema = v.object({
  version: v.string(),
  /** By digest of the model, and of its projector if it has one. */
  models: v.record(v.string(), v.array(v.picklist(TRIED_CAPABILITIES))),
});

type Found = Map<string, readonly TriedCapability[]>;

const MOST_MODELS = 1000;

/** One process writes the file, the daemon; it is read once per process. */
export class TriedCapabilities {
  readonly #place: TriedPlace | undefined;
  #found: Promise<Found> | undefined;

  /** Without a place everything is kept in memory only. */
  constructor(place?: TriedPlace) {
    this.#place = place;
  }

  /** undefined: this version has not loaded the model yet. */
  async of(digest: string): Promise<readonly TriedCapability[] | undefined> {
    return (await this.#all()).get(digest);
  }

  /** Keeps it in memory, then on disk. Rejects with the file system's error. */
  async note(digest: string, capabilities: readonly TriedCapability[]): Promise<void> {
    const found = await this.#all();
    // The newest last: the first ones are dropped.
    found.delete(digest);
    found.set(digest, capabilities);
    for (const oldest of [...found.keys()].slice(0, -MOST_MODELS)) found.delete(oldest);
    if (this.#place === undefined) return;
    const { path, version } = this.#place;
    const text = JSON.stringify({ version, models: Object.fromEntries(found) }, null, 2);
    await writeFileAtomic(path, `${text}\n`, { mode: 0o600 });
  }

  #all(): Promise<Found> {
    this.#found ??= read(this.#place);
    return this.#found;
  }
}

async function read(place: TriedPlace | undefined): Promise<Found> {
  if (place === undefined) return new Map();
  try {
    const { version, models } = v.parse(FileSchema, JSON.parse(await readText(place.path)));
    return new Map(version === place.version ? Object.entries(models) : []);
  } catch {
    return new Map();
  }
}

/** Identifies the files that a load tries. undefined: the content is not known. */
export function keyOfFindings({ digest, projector }: ModelRecord): string | undefined {
  if (digest === null) return undefined;
  if (projector === undefined) return digest;
  return `${digest} ${projector.digest ?? `${projector.path} ${String(projector.size_bytes)}`}`;
}
