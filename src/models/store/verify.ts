/**
 * Verifies models: hashes every file and compares it with its digest, and compares the registry's facts of a model
 * with its files.
 *
 * This may take hours, so nothing is locked meanwhile. The results are written at the end, under the registry's lock,
 * and only for models whose files are still the ones that were read:
 *
 * - Digests of damaged files in the store, so that loading such a model fails instead of producing noise, and a pull
 *   of it downloads the file again. Damaged files stay: a model refers to them.
 * - For a model whose content is right: size and time of its files (a restored backup has others) and its facts,
 *   which a newer svc may read better.
 */
import { stat } from 'node:fs/promises';
import { SvcError } from '../../protocol/errors.ts';
import type { Problem, VerifyEvent, VerifyResult } from '../../protocol/model/verify.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import { placesOf } from './adopted.ts';
import { digestOf } from './digest.ts';
import { modelFileError, type GgufSummary } from '../gguf/gguf.ts';
import { collectLeftovers } from './leftovers.ts';
import { inspectParts } from '../gguf/gguf.ts';
import { partsBeside } from '../gguf/part-names.ts';
import { progressReport } from '../../files/rate.ts';
import { besidesOf, type Registry, type RegistryEntry, type RegistryFile, type StoredFile } from './registry.ts';
import type { StorePaths } from './store-paths.ts';

/** By the scheme of the source of a model that lies outside the store. */
const PROGRAMS: Readonly<Record<string, string>> = {
  ollama: 'Ollama',
  lmstudio: 'LM Studio',
  hf: "the hub's cache",
};

interface PlacedFile extends StoredFile {
  readonly path: string;
}

/** Result for one file, and the version of the file that was read. */
interface Finding {
  readonly problem: Problem | null;
  /** Inode, size and time; if they differ now, the file has changed. */
  readonly version: string;
}

export type OnVerified = (event: VerifyEvent) => void;

export interface VerificationOptions {
  readonly registry: RegistryFile;
  readonly paths: StorePaths;
  readonly emit: OnVerified;
  /** Aborting ends the reading; nothing is written then. */
  readonly signal?: AbortSignal | undefined;
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

  /** Verifies the files of the models, each once; reports the progress over all files. @throws `signal.reason` */
  async verify(entries: readonly RegistryEntry[]): Promise<void> {
    const { paths, signal } = this.#options;
    const files = new Map(entries.flatMap((entry) => filesOf(entry, paths)).map((file) => [file.path, file]));
    let model = '';
    let before = 0;
    const report = progressReport(sum([...files.values()]), (progress) =>
      this.#options.emit({ type: 'progress', model, ...progress }),
    );
    for (const entry of entries) {
      model = entry.id;
      for (const file of filesOf(entry, paths)) {
        if (this.#findings.has(file.path)) continue;
        const finding = await lookAt(file, (done) => {
          signal?.throwIfAborted();
          report(before + done);
        });
        // An aborted file looks unreadable.
        signal?.throwIfAborted();
        this.#findings.set(file.path, finding);
        before += file.size_bytes;
      }
      await this.#judge(entry);
    }
  }

  /** Adds the result for a model that has no digest to compare with. */
  told({ id, path, size_bytes }: ModelRecord, failure: SvcError | undefined): void {
    const problems: Problem[] =
      failure === undefined ? [] : [{ file: path, kind: 'invalid', message: failure.message }];
    this.#say(id, size_bytes, problems, failure?.hint ?? null);
  }

  /** Writes the results to the registry. If it cannot be written to, the result has a warning. */
  async end(isAll: boolean): Promise<VerifyResult> {
    const { registry: file, paths } = this.#options;
    const result = { type: 'finished', verified: this.#verified, damaged: this.#damaged } as const;
    // Without a store nothing was ever added; do not create one.
    if ((await stat(paths.dir).catch(() => null)) === null) return { ...result, leftovers: null };
    try {
      const leftovers = await file.update(async (registry) => {
        for (const entry of this.#entries) await this.#note(entry, registry);
        const held = new Set(registry.models.flatMap((entry) => filesOf(entry, paths)).map(({ digest }) => digest));
        registry.damaged = registry.damaged.filter((digest) => held.has(digest));
        return isAll ? await collectLeftovers(paths, registry, Date.now()) : null;
      });
      return { ...result, leftovers };
    } catch (error) {
      // The models may be on a read-only disk, and reading them has taken hours.
      if (error instanceof SvcError) return { ...result, leftovers: null, warning: error.message };
      throw error;
    }
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
    const damaged = problems.map(({ file }) => file);
    this.#say(entry.id, sum(files), problems, problems.length === 0 ? null : mendingOf(entry, damaged, paths));
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
      // A file outside the store is not marked as damaged: it is reported now and verified again the next time.
      const isOutside = entry.path === path || besidesOf(entry).some((file) => file.path === path);
      if (isOutside || finding === undefined || finding.version !== (await versionOf(path))) continue;
      const others = registry.damaged.filter((each) => each !== digest);
      registry.damaged = finding.problem === null ? others : [...others, digest];
    }
    const summary = this.#summaries.get(entry.id);
    if (summary === undefined) return;
    for (const { path } of weightsOf(entry, paths)) {
      if (this.#findings.get(path)?.version !== (await versionOf(path))) return;
    }
    // The license may come from where the model was pulled.
    Object.assign(entry, { ...summary, license: entry.license });
  }
}

/** The files with a model's weights, with their paths. */
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
  const besides = besidesOf(entry).map((file) => ({ ...file, path: file.path ?? paths.blob(file.digest) }));
  return [...weightsOf(entry, paths), ...besides];
}

/** What is wrong with a file besides the weights, as far as is known without reading it. */
export async function faultOf(
  { digest, size_bytes, path }: StoredFile,
  { damaged }: Registry,
  paths: StorePaths,
): Promise<'missing' | 'damaged' | undefined> {
  const found = await stat(path ?? paths.blob(digest)).catch(() => null);
  if (found === null) return 'missing';
  const isMarked = path === undefined && damaged.includes(digest);
  return isMarked || found.size !== size_bytes ? 'damaged' : undefined;
}

/** True if a file in the store with weights was found not to match its digest. */
export function isDamaged({ path, digest, parts }: RegistryEntry, { damaged }: Registry): boolean {
  if (path !== null || damaged.length === 0) return false;
  return (parts?.map((part) => part.digest) ?? [digest]).some((each) => damaged.includes(each));
}

/** Returns a hint how to repair a model of which these files are missing or damaged. */
export function mendingOf(entry: RegistryEntry, files: readonly string[], paths: StorePaths): string {
  const { id, path, source, projector, adapters } = entry;
  const isBad = ({ digest, path: place = paths.blob(digest) }: StoredFile): boolean => files.includes(place);
  const adapter = adapters?.find(isBad);
  if (adapter !== undefined)
    return `remove the adapter, and add it again: svc model rm --yes --adapter ${adapter.id} ${id}`;
  const isAdded = projector?.path === undefined && (path !== null || source === 'file');
  if (projector === undefined || !isAdded || !isBad(projector) || weightsOf(entry, paths).some(isBad))
    return mendingOfWeights(entry);
  return `add it again with its projector: svc model add ${path ?? '--copy MODEL_FILE'} --projector FILE`;
}

/** The program that a model was imported from; undefined: it was not. */
function programOf(source: string, path: string | null): string | undefined {
  if (path === null) return undefined;
  const [scheme = ''] = source.split(':');
  return Object.hasOwn(PROGRAMS, scheme) ? PROGRAMS[scheme] : undefined;
}

function mendingOfWeights({ id, source, path, digest, parts }: RegistryEntry): string {
  const program = programOf(source, path);
  if (program !== undefined) {
    const pull = source.startsWith('lmstudio:') ? '' : `; to let svc keep a copy: svc model pull ${source}`;
    return `${program} may have removed or replaced it: svc model rm ${id}${pull}`;
  }
  if (path !== null)
    return `restore its file and add it again: svc model add ${path}; or remove it: svc model rm ${id}`;
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
    return now === digest
      ? { problem: null, version }
      : found('digest', `has changed (SHA-256 mismatch): its digest is ${now}`);
  } catch (error) {
    const { code, message } = modelFileError(error, 'it');
    return code === 'MODEL_NOT_FOUND'
      ? found('missing', 'is missing')
      : found('unreadable', message.replace(/^it /, ''));
  }
}

async function versionOf(path: string): Promise<string> {
  const found = await stat(path).catch(() => null);
  return found === null ? 'gone' : `${found.ino} ${found.size} ${found.mtimeMs}`;
}

function sum(files: readonly StoredFile[]): number {
  return files.reduce((total, { size_bytes }) => total + size_bytes, 0);
}
