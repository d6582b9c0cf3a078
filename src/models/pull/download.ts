/**
 * One file of known size and SHA-256, from a server that may do anything, into a partial file.
 *
 * The first answer decides: 206, and several parts are fetched at a time; 200, and the server gives the
 * file whole or not at all. Parts are taken in order, so that the digest runs along (RunningDigest).
 *
 * A failed part is asked for again from where it stands, after a pause that grows, or that the server
 * asked for; what is counted is failures in a row without progress, over all parts. A link that was
 * refused (they expire) is made anew. Whatever stays wrong is an error, and what has come stays for
 * the next try, unless its digest is wrong: then nothing of it can be kept.
 *
 * The digest is the only thing that says what the file is. A server whose ETag has changed may have
 * moved the same bytes: they are taken, and judged like all others at the end.
 */
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { retryAfterSeconds } from '../../net/retry-after.ts';
import { SvcError } from '../../protocol/errors.ts';
import { downloadFailed } from './failures.ts';
import type { PartialFile } from './partial-file.ts';
import type { Range } from './ranges.ts';
import { RunningDigest } from './running-digest.ts';
import { connectionFailure, leadsTo, type Answer, type Credential, type Web } from './web.ts';

/** Where bytes are to be had. */
export interface Located {
  readonly url: URL;
  /** See Web. */
  readonly named: URL;
  readonly credential?: Credential | undefined;
}

export interface RemoteFile {
  /** For people; no path. */
  readonly name: string;
  readonly sizeBytes: number;
  readonly digest: string;
  /** Asks where it lies now. @throws SvcError */
  locate(signal: AbortSignal): Promise<Located>;
}

export interface DownloadLimits {
  /** Parts that are fetched at once. */
  readonly connections: number;
  readonly partBytes: number;
  /** What a killed process loses of each part, at most. */
  readonly noteBytes: number;
  /** Failures in a row without progress. */
  readonly failures: number;
  readonly firstPauseMs: number;
  readonly mostPauseMs: number;
  /** A server that asks for more is not waited for. */
  readonly mostRetryAfterMs: number;
  /** A part that gets less than this many bytes in `stallMs` is asked for anew. */
  readonly stallBytes: number;
  readonly stallMs: number;
}

export const DOWNLOAD_LIMITS: DownloadLimits = {
  connections: 4,
  partBytes: 32 * 1024 * 1024,
  noteBytes: 4 * 1024 * 1024,
  failures: 8,
  firstPauseMs: 500,
  mostPauseMs: 30_000,
  mostRetryAfterMs: 300_000,
  stallBytes: 16 * 1024,
  stallMs: 30_000,
};

export interface DownloadEvents {
  /** So many bytes came, whether or not they can be kept. */
  onFetched(count: number): void;
  /** So many more bytes of the file are there. */
  onBytes(count: number): void;
  /** It goes on after a pause. */
  onRetry(reason: string, pauseMs: number): void;
  /** Bytes that were there are gone. */
  onLost(count: number): void;
}

/** Handed to the file at once: fewer, larger writes. */
const WRITE_BYTES = 512 * 1024;
/** Progress that ends a row of failures. */
const PROGRESS_BYTES = 64 * 1024;

export class Download {
  readonly #web: Web;
  readonly #remote: RemoteFile;
  readonly #file: PartialFile;
  readonly #limits: DownloadLimits;
  readonly #events: DownloadEvents;
  readonly #digest: RunningDigest;
  #located: Located | null = null;
  #locating: Promise<Located> | null = null;
  #failures = 0;
  #bytesSinceFailure = 0;
  /** `performance.now()` before which nothing is asked for. */
  #pausedUntil = 0;

  constructor(web: Web, remote: RemoteFile, file: PartialFile, limits: DownloadLimits, events: DownloadEvents) {
    this.#web = web;
    this.#remote = remote;
    this.#file = file;
    this.#limits = limits;
    this.#events = events;
    this.#digest = new RunningDigest(file);
  }

  /**
   * Resolves when the file is there, has its digest and is on disk.
   * @throws SvcError DOWNLOAD_FAILED, CANNOT_WRITE, what `locate` throws; `signal.reason`
   */
  async run(signal: AbortSignal): Promise<void> {
    const hadBytes = this.#file.written.bytes > 0;
    await this.#fetchAll(signal);
    if (await this.#isRight()) return;
    await this.#startAnew();
    if (hadBytes) {
      // What lay here from before may have been the damaged part.
      this.#events.onRetry('what had come before was damaged: fetching it anew', 0);
      await this.#fetchAll(signal);
      if (await this.#isRight()) return;
      await this.#startAnew();
    }
    throw downloadFailed(`${this.#remote.name} is not what it should be: its SHA-256 is another`, {
      hint: 'nothing of it was kept; whoever offers the file has damaged or replaced it',
      retryable: false,
    });
  }

  async #fetchAll(signal: AbortSignal): Promise<void> {
    const failed = new AbortController();
    const both = AbortSignal.any([signal, failed.signal]);
    // What lay here from before is read while the rest comes.
    const before = this.#digest.catchUp(both).catch(() => undefined);
    try {
      const parts = this.#file.written.missing(this.#remote.sizeBytes, this.#limits.partBytes);
      const [first] = parts;
      if (first === undefined) return;
      let opened: (hasParts: boolean) => void = () => undefined;
      const hasParts = new Promise<boolean>((resolve) => (opened = resolve));
      const workers = Array.from({ length: this.#limits.connections }, async (_, index) => {
        // The first answer tells whether there are parts at all.
        if (index > 0 && !(await hasParts)) return;
        for (let part = parts.shift(); part !== undefined && !both.aborted; part = parts.shift()) {
          const isWhole = await this.#fetchPart(part, both, opened);
          if (isWhole) parts.length = 0;
        }
      });
      const ending = workers.map(async (worker) => {
        try {
          await worker;
        } catch (error) {
          opened(false);
          failed.abort(error);
          throw error;
        }
      });
      const ended = await Promise.allSettled(ending);
      signal.throwIfAborted();
      if (failed.signal.aborted) throw failed.signal.reason;
      for (const each of ended) if (each.status === 'rejected') throw each.reason;
    } finally {
      failed.abort();
      await before;
    }
  }

  /** Whether the digest is the right one; then the file is on disk for good. */
  async #isRight(): Promise<boolean> {
    await this.#digest.catchUp(new AbortController().signal);
    if (this.#digest.position !== this.#remote.sizeBytes || this.#digest.finish() !== this.#remote.digest) return false;
    await this.#file.sync();
    return true;
  }

  async #startAnew(): Promise<void> {
    this.#events.onLost(this.#file.written.bytes);
    await this.#file.reset();
    this.#digest.reset();
    this.#located = null;
  }

  /** Resolves when the part is there; true when that is the whole file. */
  async #fetchPart(part: Range, signal: AbortSignal, opened: (hasParts: boolean) => void): Promise<boolean> {
    let position = part.from;
    for (;;) {
      await this.#waitForPause(signal);
      try {
        const located = await this.#locate(signal);
        const { answer, isWhole } = await this.#ask(located, position, part.to, signal);
        if (isWhole) await this.#beginWhole();
        opened(!isWhole);
        const [from, to] = isWhole ? [0, this.#remote.sizeBytes] : [position, part.to];
        await this.#receive(answer, from, to, signal, (reached) => (position = isWhole ? part.from : reached));
        return isWhole;
      } catch (error) {
        signal.throwIfAborted();
        await this.#failed(error, signal);
      }
    }
  }

  /** An answer that begins at `from`, or has the whole file. */
  async #ask(
    { url: first, named, credential }: Located,
    from: number,
    to: number,
    signal: AbortSignal,
  ): Promise<{ answer: Answer; isWhole: boolean }> {
    const { etag } = this.#file;
    const ask = async (ifRange: string | null): Promise<Answer> => {
      const headers = { range: `bytes=${from}-${to - 1}`, ...(ifRange === null ? {} : { 'if-range': ifRange }) };
      return await this.#web.follow({ url: first, headers, credential, signal }, named);
    };
    let answer = await ask(etag);
    if (answer.status === 200 && etag !== null) {
      // The file is another one now, or lies elsewhere.
      answer.body.destroy();
      await this.#file.setEtag(null);
      answer = await ask(null);
    }
    try {
      return { answer, isWhole: await this.#judge(answer, from, to) };
    } catch (error) {
      answer.body.destroy();
      throw error;
    }
  }

  /** Whether it is the whole file. @throws SvcError when the answer is not what was asked for */
  async #judge(answer: Answer, from: number, to: number): Promise<boolean> {
    const { status, header, url } = answer;
    const { sizeBytes } = this.#remote;
    if (status === 206) {
      const [, first, last, total] =
        /^bytes (\d{1,16})-(\d{1,16})\/(\d{1,16}|\*)$/.exec(header('content-range') ?? '') ?? [];
      if (total !== undefined && total !== '*' && Number(total) !== sizeBytes)
        throw this.#otherSize(url, Number(total));
      if (Number(first) !== from || Number(last) >= to) {
        throw downloadFailed(`${url.host} sent another part than it was asked for`);
      }
      const etag = header('etag');
      if (etag?.startsWith('"') === true) await this.#file.setEtag(etag);
      return false;
    }
    if (status === 200) {
      const length = header('content-length');
      if (length !== undefined && Number(length) !== sizeBytes) throw this.#otherSize(url, Number(length));
      return true;
    }
    if (status === 416) throw this.#otherSize(url, null);
    if (leadsTo(answer) !== null) throw downloadFailed(`${url.host} redirects without an end`, { retryable: false });
    // A link that has expired is refused; by a new one that is refused as well little is to be hoped for.
    const isRefused = [401, 403, 404, 410].includes(status);
    if (isRefused) this.#failures += 2;
    const pauseSeconds = retryAfterSeconds(header, Date.now());
    throw downloadFailed(`${url.host} answered with status ${status} when asked for ${this.#remote.name}`, {
      retryable: isRefused || status >= 500 || [408, 425, 429].includes(status),
      ...(pauseSeconds === null ? {} : { retryAfterSeconds: pauseSeconds }),
    });
  }

  /** Nothing that lay here is of use to a server that only sends all. */
  async #beginWhole(): Promise<void> {
    await this.#digest.catchUp(new AbortController().signal);
    const lost = this.#file.written.bytes;
    if (lost === 0) return;
    this.#events.onLost(lost);
    await this.#file.reset();
    this.#digest.reset();
  }

  async #receive(
    { body, url }: Answer,
    from: number,
    to: number,
    signal: AbortSignal,
    onReached: (position: number) => void,
  ): Promise<void> {
    let position = from;
    let noted = from;
    let pieces: Buffer[] = [];
    let length = 0;
    const write = async (): Promise<void> => {
      if (length === 0) return;
      this.#digest.pass(pieces, position);
      const added = await this.#file.write(pieces, position);
      position += length;
      this.#progressed(added);
      pieces = [];
      length = 0;
      onReached(position);
      if (position - noted < this.#limits.noteBytes) return;
      await this.#file.note(noted, position);
      noted = position;
    };
    const watch = this.#watchRate(body, url);
    try {
      for await (const piece of body as AsyncIterable<Buffer>) {
        signal.throwIfAborted();
        this.#events.onFetched(piece.length);
        watch.count(piece.length);
        const wanted = to - position - length;
        if (piece.length > wanted) throw downloadFailed(`${url.host} sent more than it was asked for`);
        pieces.push(piece);
        length += piece.length;
        if (length >= WRITE_BYTES) await write();
      }
      await write();
      if (position < to) throw downloadFailed(`${url.host} broke the connection off`);
    } catch (error) {
      throw connectionFailure(error, url);
    } finally {
      watch.end();
      body.destroy();
      // Of a part that failed too: it goes on from there, in this process or another.
      await write().catch(() => undefined);
      await this.#file.note(noted, position);
      void this.#digest.catchUp(signal).catch(() => undefined);
    }
  }

  /** undici sees a body that is silent, not one that drips. */
  #watchRate(body: Readable, url: URL): { count(bytes: number): void; end(): void } {
    const { stallMs, stallBytes } = this.#limits;
    let bytes = 0;
    const timer = setInterval(() => {
      if (bytes < stallBytes) body.destroy(downloadFailed(`${url.host} sends next to nothing`));
      bytes = 0;
    }, stallMs);
    return { count: (more) => (bytes += more), end: () => clearInterval(timer) };
  }

  #progressed(bytes: number): void {
    this.#events.onBytes(bytes);
    this.#bytesSinceFailure += bytes;
    if (this.#bytesSinceFailure >= PROGRESS_BYTES) this.#failures = 0;
  }

  /** Resolves when it is worth another try. @throws SvcError when it is not */
  async #failed(thrown: unknown, signal: AbortSignal): Promise<void> {
    const error = SvcError.from(thrown);
    if (error.code !== 'DOWNLOAD_FAILED' || !error.retryable) throw error;
    // It may have been made for a time.
    this.#located = null;
    this.#failures += 1;
    this.#bytesSinceFailure = 0;
    if (this.#failures >= this.#limits.failures) {
      throw new SvcError(error.code, `${error.message}, again and again`, {
        hint: 'what has come is kept; the same command goes on from there',
        cause: error,
      });
    }
    const { firstPauseMs, mostPauseMs, mostRetryAfterMs } = this.#limits;
    const asked = (error.retryAfterSeconds ?? 0) * 1000;
    if (asked > mostRetryAfterMs) {
      throw new SvcError(
        error.code,
        `${error.message} and asks to be left alone for ${Math.ceil(asked / 60_000)} minutes`,
        {
          hint: 'what has come is kept; the same command goes on from there',
          retryAfterSeconds: asked / 1000,
          cause: error,
        },
      );
    }
    const grown = Math.min(mostPauseMs, firstPauseMs * 2 ** (this.#failures - 1)) * (0.5 + Math.random() / 2);
    const pauseMs = Math.max(grown, asked);
    // A server that asks for peace gets it from all parts.
    if (asked > 0) this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + pauseMs);
    this.#events.onRetry(error.message, pauseMs);
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
    signal.throwIfAborted();
  }

  async #waitForPause(signal: AbortSignal): Promise<void> {
    const left = this.#pausedUntil - performance.now();
    if (left > 0) await sleep(left, undefined, { signal }).catch(() => undefined);
    signal.throwIfAborted();
  }

  /** One question for all parts. */
  async #locate(signal: AbortSignal): Promise<Located> {
    if (this.#located !== null) return this.#located;
    this.#locating ??= this.#remote.locate(signal).finally(() => (this.#locating = null));
    this.#located = await this.#locating;
    return this.#located;
  }

  #otherSize(url: URL, size: number | null): SvcError {
    const said = size === null ? 'has fewer bytes of it' : `says that it has ${size} bytes`;
    return downloadFailed(`${this.#remote.name} should have ${this.#remote.sizeBytes} bytes, and ${url.host} ${said}`, {
      hint: 'the file was replaced or damaged where it lies; try again later, or another source',
      retryable: false,
    });
  }
}
