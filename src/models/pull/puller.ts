/**
 * Pulls a model into the store: parses its reference (reference.ts), resolves it to files (hub.ts,
 * ollama-registry.ts, url-source.ts), downloads them (download.ts) and moves them into the store.
 *
 * The same code runs in the daemon and, without a daemon, in the command. A pull of content that is being downloaded
 * joins that download: within a process by sharing the job, between processes by the lock of the digest. A file gets
 * into the store only after its digest was verified and it was parsed as GGUF.
 */
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { SvcError } from '../../protocol/errors.ts';
import type { ModelRecord } from '../../protocol/records.ts';
import type { ErrorEvent, HubSettings, PullEvent } from '../../protocol/routes.ts';
import type { FetchedFile, FetchedModel } from '../store/adopted.ts';
import { DigestsOnce } from '../store/digest.ts';
import { askForSpace, nearest } from '../store/free-space.ts';
import type { NewModel } from '../store/lookup.ts';
import { withDownloadLocks } from './download-lock.ts';
import { DOWNLOAD_LIMITS, Download, type DownloadEvents, type DownloadLimits, type RemoteFile } from './download.ts';
import { Hub } from './hub.ts';
import { Job } from './job.ts';
import { findInRegistry } from './ollama-registry.ts';
import { downloadPaths, PartialFile, readJournal } from './partial-file.ts';
import { Rate } from '../../files/rate.ts';
import type { FullReference } from './reference.ts';
import type { Source } from './source.ts';
import { clearForgotten, removeDownload } from './unfinished.ts';
import { findAtUrl } from './url-source.ts';
import { Web } from './web.ts';

export type Pulled = Exclude<PullEvent, ErrorEvent>;

/** The part of ModelStore that a pull uses. */
export interface Adopting {
  held(files: readonly Omit<FetchedFile, 'path'>[], digests: DigestsOnce): Promise<boolean[]>;
  /** As `adopt` would choose it now. */
  idFor(model: NewModel): Promise<string>;
  adopt(model: FetchedModel): Promise<ModelRecord>;
}

export interface PullerOptions {
  readonly store: Adopting;
  /** Folder of the store, to check the free space of its disk. */
  readonly storeDir: string;
  /** Folder of partial downloads. */
  readonly dir: string;
  readonly limits?: Partial<DownloadLimits>;
}

const PROGRESS_MS = 250;
/** Attempts of a request to a hub or a registry. */
const TRIES = 4;

export class Puller {
  readonly #options: PullerOptions;
  readonly #limits: DownloadLimits;
  readonly #web: Web;
  readonly #jobs = new Map<string, Job<Pulled>>();

  constructor(options: PullerOptions) {
    this.#options = options;
    this.#limits = { ...DOWNLOAD_LIMITS, ...options.limits };
    this.#web = new Web({ stallMs: this.#limits.stallMs });
  }

  /**
   * Pulls a model; ends after `pulled`. Returning early or aborting pauses it: partial downloads are kept.
   * @param reference any but a short name, which the caller resolves by the catalogue
   * @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID, PROVIDER_AUTH, DOWNLOAD_FAILED, CANNOT_WRITE, INVALID_REQUEST
   */
  async *pull(
    reference: FullReference,
    names: readonly string[],
    settings: HubSettings,
    signal: AbortSignal,
  ): AsyncGenerator<Pulled, void, undefined> {
    const found = await this.#patiently(signal, () => this.#find(reference, settings, signal));
    const id = await this.#options.store.idFor(found);
    const source = { ...found, id, aliases: [...names, ...found.aliases] };
    const key = [source.id, ...source.weights.map(({ digest }) => digest)].join();
    let job = this.#jobs.get(key);
    if (job?.isLeft === true) {
      await job.settled;
      job = this.#jobs.get(key);
    }
    if (job === undefined) {
      const isReplaced = (before: Pulled, now: Pulled): boolean =>
        before.type === 'progress' && now.type === 'progress';
      const made = new Job<Pulled>(isReplaced, async (emit, left) => {
        try {
          await this.#fetch(source, emit, left);
        } finally {
          if (this.#jobs.get(key) === made) this.#jobs.delete(key);
        }
      });
      this.#jobs.set(key, made);
      job = made;
    }
    yield* job.listen(signal);
  }

  /** REQUIRES: no pull is running. */
  async close(): Promise<void> {
    await this.#web.close();
  }

  async #find(reference: FullReference, settings: HubSettings, signal: AbortSignal): Promise<Source> {
    switch (reference.kind) {
      case 'hub':
        return await new Hub(this.#web, settings).find(reference, signal);
      case 'ollama':
        return await findInRegistry(this.#web, reference, signal);
      case 'url':
        return await findAtUrl(this.#web, reference, signal);
    }
  }

  async #fetch(source: Source, emit: (event: Pulled) => void, signal: AbortSignal): Promise<void> {
    const { weights, projector } = source;
    const digests = new DigestsOnce(signal);
    const files = [...weights, ...(projector === null ? [] : [projector])];
    const total = sum(files.map(({ sizeBytes }) => sizeBytes));
    emit({
      type: 'resolved',
      model: source.id,
      source: source.origin,
      files: files.map(({ name, sizeBytes, digest }) => ({ name, size_bytes: sizeBytes, digest })),
      total_bytes: total,
      present_bytes: await this.#presentBytes(source, digests),
    });
    let isWaiting = false;
    const onWait = async (): Promise<void> => {
      if (!isWaiting) emit({ type: 'waiting', reason: `another svc is fetching ${source.id}`, pause_ms: null });
      isWaiting = true;
      emit({
        type: 'progress',
        done_bytes: await this.#presentBytes(source, digests),
        total_bytes: total,
        fetched_bytes: 0,
        bytes_per_second: null,
      });
    };
    // Sorted, so that processes cannot deadlock. All are held until the store has the files, so that no process
    // loses a partial file that it is using.
    const sorted = [...new Set(files.map(({ digest }) => digest))].sort();
    const locks = sorted.map((digest) => downloadPaths(this.#options.dir, digest).lock);
    await withDownloadLocks(locks, { signal, onWait }, async (locked) => {
      let model: ModelRecord;
      const progress = new PullProgress(total, await this.#presentBytes(source, digests), emit);
      try {
        model = await this.#fetchLocked(source, digests, progress, emit, locked);
      } finally {
        progress.end();
      }
      emit({ type: 'pulled', model, fetched_bytes: progress.fetchedBytes });
    });
  }

  /** REQUIRES: the locks of all files. */
  async #fetchLocked(
    source: Source,
    digests: DigestsOnce,
    progress: PullProgress,
    emit: (event: Pulled) => void,
    signal: AbortSignal,
  ): Promise<ModelRecord> {
    const { weights, projector } = source;
    const missing = await this.#missing(source, digests);
    await clearForgotten(
      this.#options.dir,
      missing.map(({ digest }) => digest),
    );
    await this.#askForSpace(missing);
    const fetched = new Map<string, string>();
    for (const file of missing) {
      if (!fetched.has(file.digest))
        fetched.set(file.digest, await this.#fetchFile(file, source, progress, emit, signal));
    }
    progress.tell();
    signal.throwIfAborted();
    const taken = ({ digest, sizeBytes }: RemoteFile): FetchedFile => {
      return { digest, sizeBytes, path: fetched.get(digest) ?? null };
    };
    return await this.#adopt({
      ...source,
      source: source.origin,
      weights: weights.map(taken),
      projector: projector === null ? null : taken(projector),
    });
  }

  /** Resolves with the path of the downloaded and verified file. */
  async #fetchFile(
    file: RemoteFile,
    { id: model, aliases }: Source,
    progress: PullProgress,
    emit: (event: Pulled) => void,
    signal: AbortSignal,
  ): Promise<string> {
    const { digest, sizeBytes } = file;
    const partial = await PartialFile.open(this.#options.dir, { digest, sizeBytes, model, aliases });
    const events: DownloadEvents = {
      onFetched: (count) => (progress.fetchedBytes += count),
      onBytes: (count) => progress.add(count),
      onLost: (count) => progress.add(-count),
      onRetry: (reason, pauseMs) => emit({ type: 'waiting', reason, pause_ms: Math.round(pauseMs) }),
    };
    const download = new Download(this.#web, file, partial, this.#limits, events);
    try {
      await download.run(signal);
      return partial.path;
    } finally {
      await partial.close();
    }
  }

  async #adopt(model: FetchedModel): Promise<ModelRecord> {
    const files = [...model.weights, ...(model.projector === null ? [] : [model.projector])];
    const clear = async (): Promise<void> => {
      for (const { digest } of files) await removeDownload(this.#options.dir, digest);
    };
    try {
      const record = await this.#options.store.adopt(model);
      await clear();
      return record;
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'MODEL_INVALID') throw error;
      // The digests are right but the content is not a model: discard the downloads.
      await clear();
      const why = files.reduce((text, { path }) => (path === null ? text : text.replaceAll(path, 'it')), error.message);
      throw new SvcError('MODEL_INVALID', `${model.source} cannot be used: ${why}`, { cause: error });
    }
  }

  /** The files that are not in the store. */
  async #missing({ weights, projector }: Source, digests: DigestsOnce): Promise<RemoteFile[]> {
    const { store } = this.#options;
    const held = [
      ...(await store.held(weights, digests)),
      ...(projector === null ? [] : await store.held([projector], digests)),
    ];
    return [...weights, ...(projector === null ? [] : [projector])].filter((_, index) => held[index] !== true);
  }

  /** Bytes that are present in the store and in partial files. */
  async #presentBytes(source: Source, digests: DigestsOnce): Promise<number> {
    const { weights, projector } = source;
    const total = sum([...weights, ...(projector === null ? [] : [projector])].map(({ sizeBytes }) => sizeBytes));
    const missing = await this.#missing(source, digests);
    const here = await Promise.all(missing.map((file) => this.#begunBytes(file)));
    return total - sum(missing.map(({ sizeBytes }) => sizeBytes)) + sum(here);
  }

  async #begunBytes({ digest, sizeBytes }: RemoteFile): Promise<number> {
    const journal = await readJournal(downloadPaths(this.#options.dir, digest).journal);
    return journal?.facts.sizeBytes === sizeBytes ? journal.ranges.bytes : 0;
  }

  /** Checks free space: the missing bytes for the partial files; all files for a store on another disk. */
  async #askForSpace(missing: readonly RemoteFile[]): Promise<void> {
    const { dir, storeDir } = this.#options;
    const home = await nearest(storeDir);
    const whole = sum(missing.map(({ sizeBytes }) => sizeBytes));
    const toFetch = whole - sum(await Promise.all(missing.map((file) => this.#begunBytes(file))));
    const isSameDisk = (await stat(dir)).dev === (await stat(home)).dev;
    for (const [path, bytes] of [[dir, toFetch] as const, [home, isSameDisk ? 0 : whole] as const]) {
      await askForSpace(
        path,
        bytes,
        'free disk space, choose a smaller quantisation, or set models.dir to another disk',
      );
    }
  }

  /** Calls `ask` and retries it after retryable download errors. */
  async #patiently<Result>(signal: AbortSignal, ask: () => Promise<Result>): Promise<Result> {
    const { firstPauseMs, mostPauseMs } = this.#limits;
    for (let tries = 1; ; tries += 1) {
      try {
        return await ask();
      } catch (error) {
        signal.throwIfAborted();
        const { retryable, code, retryAfterSeconds = 0 } = SvcError.from(error);
        if (code !== 'DOWNLOAD_FAILED' || !retryable || tries === TRIES || retryAfterSeconds * 1000 > mostPauseMs)
          throw error;
        const pauseMs = Math.max(firstPauseMs * 2 ** (tries - 1), retryAfterSeconds * 1000);
        await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
        signal.throwIfAborted();
      }
    }
  }
}

/** Progress of all files together. */
class PullProgress {
  readonly #total: number;
  readonly #emit: (event: Pulled) => void;
  readonly #rate = new Rate();
  readonly #timer: NodeJS.Timeout;
  #done: number;
  #told = '';
  /** Total bytes received over the network. */
  fetchedBytes = 0;

  /** @param present bytes that were present at the start */
  constructor(total: number, present: number, emit: (event: Pulled) => void) {
    this.#total = total;
    this.#emit = emit;
    this.#done = present;
    this.#rate.sample(present);
    this.#timer = setInterval(() => this.tell(), PROGRESS_MS);
  }

  add(bytes: number): void {
    this.#done += bytes;
  }

  tell(): void {
    this.#rate.sample(this.#done);
    const figures = { done_bytes: this.#done, total_bytes: this.#total, fetched_bytes: this.fetchedBytes };
    const told = Object.values(figures).join();
    if (told === this.#told) return;
    this.#told = told;
    this.#emit({ type: 'progress', ...figures, bytes_per_second: this.#rate.bytesPerSecond });
  }

  end(): void {
    clearInterval(this.#timer);
    this.tell();
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
