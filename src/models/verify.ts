/**
 * Whether the models are what they were when they came: every file is read whole and held against its digest, and
 * what the registry says of a model against what its files say.
 *
 * Hours may go by over it, so nothing is locked meanwhile. What was found is written down at the end, under the
 * registry's lock, of those models only whose files are still the ones that were read:
 *
 * - The digests of damaged files in the store, so that such a model says so instead of answering with noise, and a
 *   pull of it fetches what it would otherwise believe to have. Damaged files stay: a model names them.
 * - Of a model whose content is right, what follows from that content: size and time of its files (a restored backup
 *   has others) and its facts, which a newer svc may read better.
 */
import { stat } from 'node:fs/promises';
import type { SvcError } from '../protocol/errors.ts';
import type { ModelRecord } from '../protocol/records.ts';
import { placesOf } from './adopted.ts';
import { digestOf } from './digest.ts';
import { modelFileError, type GgufSummary } from './gguf.ts';
import { collectLeftovers, type Leftovers } from './leftovers.ts';
import { inspectParts } from './gguf.ts';
import { partsBeside } from './part-names.ts';
import { Rate } from './pull/rate.ts';
import type { Registry, RegistryEntry, RegistryFile, StoredFile } from './registry.ts';
import type { StorePaths } from './store-paths.ts';

export interface Problem {
  readonly file: string;
  readonly kind: 'missing' | 'unreadable' | 'size' | 'digest' | 'invalid';
  /** What is wrong, after the file's name. */
  readonly message: string;
}

export type VerifyEvent =
  | {
      readonly type: 'progress';
      readonly model: string;
      readonly done_bytes: number;
      readonly total_bytes: number;
      readonly bytes_per_second: number | null;
    }
  | {
      readonly type: 'verified';
      readonly model: string;
      readonly state: 'ok' | 'damaged';
      readonly size_bytes: number;
      readonly problems: readonly Problem[];
      /** What to do about them; null: nothing. */
      readonly hint: string | null;
    };

export interface VerifyResult {
  readonly type: 'finished';
  readonly verified: number;
  /** Ids. */
  readonly damaged: readonly string[];
  /** null: not all were verified, or there is no store, so that nothing was cleared. */
  readonly leftovers: Leftovers | null;
}

const PROGRESS_MS = 250;

interface PlacedFile extends StoredFile {
  readonly path: string;
}

/** One file as it was read: what was wrong, and which file that was. */
interface Finding {
  readonly problem: Problem | null;
  /** Inode, size and time; another one now, and it is another file. */
  readonly version: string;
}

export interface VerificationOptions {
  readonly registry: RegistryFile;
  readonly paths: StorePaths;
  readonly emit: (event: VerifyEvent) => void;
}

export class Verification {
  readonly #options: VerificationOptions;
  readonly #findings = new Map<string, Finding>();
  readonly #summaries = new Map<string, GgufSummary>();
  readonly #entries: RegistryEntry[] = [];
  readonly #damaged: string[] = [];
  #verified = 0;

  constructor(options: VerificationOptions) {
    this.#options = options;
  }

  /** Reads the files of the models, each once; progress is that of all together. */
  async verify(entries: readonly RegistryEntry[]): Promise<void> {
    const { paths } = this.#options;
    const files = new Map(entries.flatMap((entry) => filesOf(entry, paths)).map((file) => [file.path, file]));
    const progress = new Progress([...files.values()], this.#options.emit);
    for (const entry of entries) {
      for (const file of filesOf(entry, paths)) {
        if (this.#findings.has(file.path)) continue;
        this.#findings.set(file.path, await lookAt(file, (done) => progress.tell(entry.id, done)));
        progress.over(file);
      }
      await this.#judge(entry);
    }
  }

  /** Of a model without a digest that it could be held against. */
  told({ id, path, size_bytes }: ModelRecord, failure: SvcError | undefined): void {
    const problems: Problem[] =
      failure === undefined ? [] : [{ file: path, kind: 'invalid', message: failure.message }];
    this.#say(id, size_bytes, problems, failure?.hint ?? null);
  }

  /** Writes down what was found. @throws SvcError CANNOT_WRITE, BUSY */
  async end(isAll: boolean): Promise<VerifyResult> {
    const { registry: file, paths } = this.#options;
    const result = { type: 'finished', verified: this.#verified, damaged: this.#damaged } as const;
    // Nothing was ever added: looking makes no store.
    if ((await stat(paths.dir).catch(() => null)) === null) return { ...result, leftovers: null };
    const leftovers = await file.update(async (registry) => {
      for (const entry of this.#entries) await this.#note(entry, registry);
      const held = new Set(registry.models.flatMap((entry) => filesOf(entry, paths)).map(({ digest }) => digest));
      registry.damaged = registry.damaged.filter((digest) => held.has(digest));
      return isAll ? await collectLeftovers(paths, registry, Date.now()) : null;
    });
    return { ...result, leftovers };
  }

  async #judge(entry: RegistryEntry): Promise<void> {
    const { paths } = this.#options;
    const files = filesOf(entry, paths);
    const problems = files.flatMap(({ path }) => this.#findings.get(path)?.problem ?? []);
    const weights = weightsOf(entry, paths).map(({ path }) => path);
    if (problems.length === 0) {
      try {
        this.#summaries.set(entry.id, await inspectParts(weights));
      } catch (error) {
        problems.push({ file: weights[0] ?? '', kind: 'invalid', message: modelFileError(error, 'it').message });
      }
    }
    this.#entries.push(entry);
    this.#say(entry.id, sum(files), problems, problems.length === 0 ? null : mendingOf(entry));
  }

  #say(model: string, sizeBytes: number, problems: readonly Problem[], hint: string | null): void {
    this.#verified += 1;
    const state = problems.length === 0 ? 'ok' : 'damaged';
    if (state === 'damaged') this.#damaged.push(model);
    this.#options.emit({ type: 'verified', model, state, size_bytes: sizeBytes, problems, hint });
  }

  /** REQUIRES: the registry's lock. */
  async #note(verified: RegistryEntry, registry: Registry): Promise<void> {
    const { paths } = this.#options;
    const entry = registry.models.find(({ id, digest }) => id === verified.id && digest === verified.digest);
    if (entry === undefined) return;
    for (const { path, digest } of filesOf(entry, paths)) {
      const finding = this.#findings.get(path);
      // A file of a person is not ours to judge for good: it is told, and looked at anew the next time.
      if (entry.path === path || finding === undefined || finding.version !== (await versionOf(path))) continue;
      const others = registry.damaged.filter((each) => each !== digest);
      registry.damaged = finding.problem === null ? others : [...others, digest];
    }
    const summary = this.#summaries.get(entry.id);
    if (summary === undefined) return;
    for (const { path } of weightsOf(entry, paths)) {
      if (this.#findings.get(path)?.version !== (await versionOf(path))) return;
    }
    entry.modified_at_ms = summary.modifiedAtMs;
    entry.size_bytes = summary.sizeBytes;
    entry.architecture = summary.architecture;
    entry.parameters = summary.parameters;
    entry.quantization = summary.quantization;
    entry.context_length = summary.contextLength;
    entry.capabilities = [...summary.capabilities];
  }
}

/** The files with a model's weights, where they lie. */
export function weightsOf({ path, digest, size_bytes, parts }: RegistryEntry, paths: StorePaths): PlacedFile[] {
  const files = parts ?? [{ digest, size_bytes }];
  const places =
    path === null
      ? placesOf(
          paths,
          files.map((file) => file.digest),
        )
      : parts === undefined
        ? [path]
        : partsBeside(path, parts.length);
  return files.map((file, index) => ({ ...file, path: places[index] ?? '' }));
}

function filesOf(entry: RegistryEntry, paths: StorePaths): PlacedFile[] {
  const { projector } = entry;
  const besides = projector === undefined ? [] : [{ ...projector, path: paths.blob(projector.digest) }];
  return [...weightsOf(entry, paths), ...besides];
}

/** Whether the store's copy was found to be another than its digest says. */
export function isDamaged({ path, digest, parts }: RegistryEntry, { damaged }: Registry): boolean {
  if (path !== null || damaged.length === 0) return false;
  return (parts?.map((part) => part.digest) ?? [digest]).some((each) => damaged.includes(each));
}

/** How a model whose files are gone or damaged comes back. */
export function mendingOf({ id, source, path, digest, parts }: RegistryEntry): string {
  if (path !== null)
    return `bring its file back and add it again: svc model add ${path}; or remove it: svc model rm ${id}`;
  const made = /^quantized:(.*)$/.exec(source)?.[1];
  if (made !== undefined) return `remove it, and make it again from ${made}: svc model rm --yes ${id}`;
  if (source === 'file') return `remove it, and add it again with --copy: svc model rm --yes ${id}`;
  const isUrl = /^https?:/.test(source) && parts === undefined;
  return `pull it again: svc model pull ${source}${isUrl ? ` --sha256 ${digest.replace('sha256:', '')}` : ''}`;
}

async function lookAt({ path, digest, size_bytes }: PlacedFile, tell: (done: number) => void): Promise<Finding> {
  const version = await versionOf(path);
  const found = (kind: Problem['kind'], message: string): Finding => ({
    problem: { file: path, kind, message },
    version,
  });
  try {
    const { size } = await stat(path);
    if (size !== size_bytes) return found('size', `has ${size} bytes where ${size_bytes} are expected`);
    const now = await digestOf(path, tell);
    return now === digest ? { problem: null, version } : found('digest', `is not what it was: its digest is ${now}`);
  } catch (error) {
    const { code, message } = modelFileError(error, 'it');
    return code === 'MODEL_NOT_FOUND' ? found('missing', 'is gone') : found('unreadable', message.replace(/^it /, ''));
  }
}

async function versionOf(path: string): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found === null ? 'gone' : `${found.ino} ${found.size} ${found.mtimeMs}`;
}

class Progress {
  readonly #emit: (event: VerifyEvent) => void;
  readonly #rate = new Rate();
  readonly #total: number;
  #done = 0;
  #toldAt = 0;

  constructor(files: readonly StoredFile[], emit: (event: VerifyEvent) => void) {
    this.#emit = emit;
    this.#total = sum(files);
    this.#rate.sample(0);
  }

  /** @param done of the file that is being read */
  tell(model: string, done: number): void {
    if (performance.now() - this.#toldAt < PROGRESS_MS) return;
    this.#toldAt = performance.now();
    const doneBytes = this.#done + done;
    this.#rate.sample(doneBytes);
    this.#emit({
      type: 'progress',
      model,
      done_bytes: doneBytes,
      total_bytes: this.#total,
      bytes_per_second: this.#rate.bytesPerSecond,
    });
  }

  over({ size_bytes }: StoredFile): void {
    this.#done += size_bytes;
  }
}

function sum(files: readonly StoredFile[]): number {
  return files.reduce((total, { size_bytes }) => total + size_bytes, 0);
}
