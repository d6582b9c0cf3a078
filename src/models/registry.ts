/**
 * The models that were added, in `<models dir>/registry.json`.
 *
 * Read without a lock: a write replaces the file whole. Changed under a lock that other processes
 * respect, for a change is read, modify, write. A registry that cannot be understood is an error
 * and is never written over.
 */
import { join } from 'node:path';
import * as v from 'valibot';
import writeFileAtomic from 'write-file-atomic';
import { withFileLock } from '../config/file-lock.ts';
import { readText } from '../files/open-file.ts';
import { whyOf } from '../files/why.ts';
import { SvcError } from '../protocol/errors.ts';

const DigestSchema = v.pipe(v.string(), v.regex(/^sha256:[0-9a-f]{64}$/));
const StoredFileSchema = v.object({ digest: DigestSchema, size_bytes: v.number() });
export type StoredFile = v.InferOutput<typeof StoredFileSchema>;

const EntrySchema = v.object({
  id: v.string(),
  aliases: v.optional(v.array(v.string()), []),
  /** See ModelRecord. */
  source: v.optional(v.string(), 'file'),
  /** Where the file lies; null: in the store, under its digest. */
  path: v.nullable(v.string()),
  /** Of a model in parts: of the list of their digests. */
  digest: DigestSchema,
  size_bytes: v.number(),
  /** In their order, in the store or beside `path`, the first of them; absent for a model in one file. */
  parts: v.optional(v.array(StoredFileSchema)),
  /** In the store. */
  projector: v.optional(StoredFileSchema),
  /** The file's, when it was added: another one now, and the file is another. */
  modified_at_ms: v.number(),
  architecture: v.string(),
  parameters: v.number(),
  quantization: v.nullable(v.string()),
  context_length: v.nullable(v.number()),
  capabilities: v.array(v.picklist(['chat', 'completion', 'embedding', 'rerank', 'tools', 'vision'])),
  license: v.nullable(v.string()),
});
export type RegistryEntry = v.InferOutput<typeof EntrySchema>;

const RegistrySchema = v.object({
  version: v.literal(1),
  /** The id of the default model that was set; null: none was. */
  default: v.nullable(v.string()),
  models: v.array(EntrySchema),
  /** Digests of files in the store whose content was found to be another (verify.ts). */
  damaged: v.optional(v.array(DigestSchema), []),
  /** What lies in the store and in no model, and since when that is known, in milliseconds (leftovers.ts). */
  unreferenced: v.optional(v.record(v.string(), v.number()), {}),
});
export type Registry = v.InferOutput<typeof RegistrySchema>;

export class RegistryFile {
  readonly #dir: string;
  readonly #path: string;

  constructor(dir: string) {
    this.#dir = dir;
    this.#path = join(dir, 'registry.json');
  }

  /** @throws SvcError CONFIG_INVALID when the file is there and cannot be understood */
  async read(): Promise<Registry> {
    let text: string;
    try {
      text = await readText(this.#path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT')
        return v.parse(RegistrySchema, { version: 1, default: null, models: [] });
      throw this.#unreadable(`cannot be read: ${whyOf(error)}`, error);
    }
    try {
      return v.parse(RegistrySchema, JSON.parse(text));
    } catch (error) {
      throw this.#unreadable('is damaged, or of a newer svc', error);
    }
  }

  /**
   * `change` gets the newest state and modifies it; nothing is written when it throws.
   * @throws SvcError as `read`; CANNOT_WRITE; BUSY when another process keeps the lock
   */
  async update<Result>(change: (registry: Registry) => Result | Promise<Result>): Promise<Result> {
    try {
      return await withFileLock(join(this.#dir, 'registry.lock'), { what: 'the models' }, async () => {
        const registry = await this.read();
        const result = await change(registry);
        await writeFileAtomic(this.#path, `${JSON.stringify(registry, null, 2)}\n`, { mode: 0o600 });
        return result;
      });
    } catch (error) {
      throw cannotWrite(error, this.#dir);
    }
  }

  #unreadable(what: string, cause: unknown): SvcError {
    return new SvcError('CONFIG_INVALID', `the list of models ${this.#path} ${what}`, {
      hint: 'mend it, or move it away and add the models again with `svc model add`',
      cause,
    });
  }
}

/** A failure of the file system in `dir`, as one of ours. */
export function cannotWrite(error: unknown, dir: string): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (error instanceof SvcError || code === undefined) return error;
  return new SvcError('CANNOT_WRITE', `cannot write to ${dir}: ${whyOf(error)}`, {
    hint: 'see that it is a directory that can be written and has room: svc doctor',
    cause: error,
  });
}
