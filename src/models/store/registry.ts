/**
 * The models that were added, in `<models dir>/registry.json`.
 *
 * Reads need no lock: a write replaces the file atomically. A change (read, modify, write) holds a lock that other
 * processes respect. A registry that cannot be parsed is an error and is never overwritten.
 *
 * Ollama's folder of models has a folder `blobs` with files of the same names. In a folder that is also Ollama's, svc
 * changes nothing, because a file that it deletes might be Ollama's.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { withFileLock } from '../../files/file-lock.ts';
import { readText } from '../../files/open-file.ts';
import { whyOf } from '../../files/why.ts';
import { SvcError } from '../../protocol/errors.ts';

const DigestSchema = v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/));
const StoredFileSchema = v.object({
  digest: DigestSchema,
  size_bytes: v.number(),
  /** Absent: in the store, under its digest; otherwise of another program (in-place.ts). */
  path: v.exactOptional(v.string()),
});
export type StoredFile = v.InferOutput<typeof StoredFileSchema>;

const EntrySchema = v.object({
  id: v.string(),
  aliases: v.optional(v.array(v.string()), []),
  /** See ModelRecord. */
  source: v.optional(v.string(), 'file'),
  /** Path of the file; null: in the store, under its digest. */
  path: v.nullable(v.string()),
  /** For a model in parts: digest of the list of the parts' digests. */
  digest: DigestSchema,
  size_bytes: v.number(),
  /** All parts in order, in the store or beside `path`, which is the first; absent for a model in one file. */
  parts: v.optional(v.array(StoredFileSchema)),
  projector: v.optional(StoredFileSchema),
  /** LoRA adapters. `base`: digest of the model that they were checked against (adapters.ts). */
  adapters: v.optional(v.array(v.object({ ...StoredFileSchema.entries, id: v.string(), base: DigestSchema }))),
  /** Modification time of the file when it was added; if it differs now, the file has changed. */
  modified_at_ms: v.number(),
  architecture: v.string(),
  parameters: v.number(),
  quantization: v.nullable(v.string()),
  context_length: v.nullable(v.number()),
  capabilities: v.array(
    v.picklist(['chat', 'completion', 'embedding', 'rerank', 'tools', 'thinking', 'vision', 'audio']),
  ),
  license: v.nullable(v.string()),
});
export type RegistryEntry = v.InferOutput<typeof EntrySchema>;

/** Files besides its weights: in the store, unless they have a path. */
export function besidesOf({ projector, adapters = [] }: RegistryEntry): StoredFile[] {
  return [...(projector === undefined ? [] : [projector]), ...adapters];
}

const RegistrySchema = v.object({
  version: v.literal(1),
  /** Id of the default model, if one was set. */
  default: v.nullable(v.string()),
  models: v.array(EntrySchema),
  /** Digests of files in the store whose content no longer matches (verify.ts). */
  damaged: v.optional(v.array(DigestSchema), []),
  /** Files in the store that belong to no model, and when that was first seen, in ms (leftovers.ts). */
  unreferenced: v.optional(v.record(v.string(), v.number()), {}),
});
export type Registry = v.InferOutput<typeof RegistrySchema>;

export class RegistryFile {
  readonly #dir: string;
  readonly #path: string;
  readonly #onUpdate: () => void;

  /** `onUpdate`: called after each update of this instance. */
  constructor(dir: string, onUpdate: () => void = () => undefined) {
    this.#dir = dir;
    this.#onUpdate = onUpdate;
    this.#path = join(dir, 'registry.json');
  }

  /**
   * @throws SvcError CONFIG_INVALID when the file exists and cannot be read or parsed, or there is none in a folder that
   * is Ollama's
   */
  async read(): Promise<Registry> {
    let text: string;
    try {
      text = await readText(this.#path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
        await refuseOllamas(this.#dir);
        return v.parse(RegistrySchema, { version: 1, default: null, models: [] });
      }
      throw this.#unreadable(`cannot be read: ${whyOf(error)}`, error);
    }
    try {
      return v.parse(RegistrySchema, JSON.parse(text));
    } catch (error) {
      throw this.#unreadable('is damaged, or of a newer svc', error);
    }
  }

  /**
   * Calls `change` with the newest state, which it modifies; nothing is written when it throws.
   * @throws SvcError as `read` and `refuseOllamas`; CANNOT_WRITE; BUSY when another process holds the lock
   */
  async update<Result>(change: (registry: Registry) => Result | Promise<Result>): Promise<Result> {
    await refuseOllamas(this.#dir);
    try {
      const result = await withFileLock(join(this.#dir, 'registry.lock'), { what: 'the models' }, async () => {
        const registry = await this.read();
        const made = await change(registry);
        await writeFileAtomic(this.#path, `${JSON.stringify(registry, null, 2)}\n`, { mode: 0o600 });
        return made;
      });
      this.#onUpdate();
      return result;
    } catch (error) {
      throw cannotWrite(error, this.#dir);
    }
  }

  #unreadable(what: string, cause: unknown): SvcError {
    return new SvcError('CONFIG_INVALID', `the list of models ${this.#path} ${what}`, {
      hint: 'repair it, or move it away and add the models again with `svc model add`',
      cause,
    });
  }
}

/** Throws `code` if the folder is also Ollama's. */
export async function refuseOllamas(
  dir: string,
  code: 'CONFIG_INVALID' | 'INVALID_REQUEST' = 'CONFIG_INVALID',
): Promise<void> {
  if (!(await isOllamas(dir))) return;
  throw new SvcError(code, `${dir} has models of Ollama: svc does not keep its own models there`, {
    hint: 'set models.dir to another directory; `svc model import --from ollama` registers those of Ollama in place',
  });
}

/** True if Ollama keeps models in this folder. */
export async function isOllamas(dir: string): Promise<boolean> {
  return (await stat(join(dir, 'manifests')).catch(() => null))?.isDirectory() === true;
}

/** Converts a file-system error in `dir` to a SvcError. */
export function cannotWrite(error: unknown, dir: string): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (error instanceof SvcError || code === undefined) return error;
  return new SvcError('CANNOT_WRITE', `cannot write to ${dir}: ${whyOf(error)}`, {
    hint: 'check that it is a writable directory with free disk space: svc doctor',
    cause: error,
  });
}
