/**
 * Downloads one file of known size and SHA-256 from an untrusted server into a partial file.
 *
 * The first response decides: with 206 several byte ranges (parts) are fetched concurrently; with 200 the server does
 * not support ranges and sends the whole file, at each attempt from its start. A 200 after a 206 is a failure: some
 * mirrors do so now and then. Parts are fetched in order, so that the digest is computed on the way (RunningDigest).
 *
 * A failed part is retried from where it stopped, after a growing pause, or after the pause that the server asked
 * for. All parts keep to the pause, and requests that fail together count as one failure: a lost network fails all of
 * them at once, however many there are. Failures in a row without progress are counted over all parts. A refused link
 * (links expire) is requested again. When the retries are exhausted the download fails; the partial file stays for the
 * next attempt, unless its digest is wrong: then it is discarded.
 *
 * Only the digest decides if the file is right. If the server's ETag has changed, it may still serve the same bytes:
 * they are accepted and verified at the end. Bytes that come again count neither as lost nor as progress.
 */
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { retryAfterSeconds } from '../../net/retry-after.ts';
import { SvcError } from '../../protocol/errors.ts';
import { downloadFailed } from './failures.ts';
import type { PartialFile } from './partial-file.ts';
import type { Range } from './ranges.ts';
import { RunningDigest } from './running-digest.ts';
import { connectionFailure, leadsTo, type WebAnswer, type Credential, type Web } from './web.ts';

/** Where a file can be downloaded now. */
export interface Located {
  readonly url: URL;
  /** See Web. */
  readonly named: URL;
  readonly credential?: Credential | undefined;
}

export interface RemoteFile {
  /** Name for messages; not a path. */
  readonly name: string;
  readonly sizeBytes: number;
  readonly digest: string;
  /** Asks the source for the file's current URL. @throws SvcError */
  locate(signal: AbortSignal): Promise<Located>;
}

export const DOWNLOAD_LIMITS = {
  /** Ranges that are fetched concurrently. */
  connections: 4,
  partBytes: 32 * 1024 * 1024,
  /** Bytes of each range between journal entries: the most that a killed process loses. */
  noteBytes: 4 * 1024 * 1024,
  /** Failures in a row without progress after which the download fails. */
  failures: 8,
  firstPauseMs: 500,
  mostPauseMs: 30_000,
  /** Longest pause that a server may ask for; with a longer one the download fails. */
  mostRetryAfterMs: 300_000,
  /** A range that receives fewer than this many bytes in `stallMs` is requested again. */
  stallBytes: 16 * 1024,
  stallMs: 30_000,
};
export type DownloadLimits = Readonly<typeof DOWNLOAD_LIMITS>;

export interface DownloadEvents {
  /** `count` bytes were received, whether or not they can be kept. */
  onFetched(count: number): void;
  /** `count` more bytes of the file are present. */
  onBytes(count: number): void;
  /** The download continues after a pause. */
  onRetry(reason: string, pauseMs: number): void;
  /** `count` bytes that were present were discarded. */
  onLost(count: number): void;
}

/** Bytes per write: fewer, larger writes. */
const WRITE_BYTES = 512 * 1024;
/** Progress that resets the count of failures. */
const PROGRESS_BYTES = 64 * 1024;
/** A refused link counts as so many failures: if a new link is refused, too, more retries are pointless. */
const REFUSAL_FAILURES = 3;

class LinkRefused extends SvcError {}

export class Download {
  readonly #web: Web;
  readonly #remote: RemoteFile;
  readonly #file: PartialFile;
  readonly #limits: DownloadLimits;
  readonly #events: DownloadEvents;
  readonly #digest: RunningDigest;
  /** True once the server has answered with a range. */
  #hasRanges = false;
  #located: Located | null = null;
  #locating: Promise<Located> | null = null;
  #failures = 0;
  /** Number of failures counted so far. Requests that began in one round and failed count once. */
  #round = 0;
  #bytesSinceFailure = 0;
  /** `performance.now()` before which no request is sent. */
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
   * Resolves when the file is complete, verified and synced to disk.
   * @throws SvcError DOWNLOAD_FAILED, CANNOT_WRITE, as `locate`; `signal.reason`
   */
  async run(signal: AbortSignal): Promise<void> {
    const hadBytes = this.#file.written.bytes > 0;
    await this.#fetchAll(signal);
    if (await this.#isRight(signal)) return;
    await this.#startAnew();
    if (hadBytes) {
      // The bytes of an earlier attempt may be the damaged ones.
      this.#events.onRetry('the partial download was damaged: downloading the file again', 0);
      await this.#fetchAll(signal);
      if (await this.#isRight(signal)) return;
      await this.#startAnew();
    }
    throw downloadFailed(`SHA-256 mismatch: ${this.#remote.name} was damaged or replaced at its source`, {
      hint: 'the download was discarded; try again later, or pull from another source',
      retryable: false,
    });
  }

  async #fetchAll(signal: AbortSignal): Promise<void> {
    const failed = new AbortController();
    const both = AbortSignal.any([signal, failed.signal]);
    // The bytes of an earlier attempt are hashed while the rest is downloaded.
    const before = this.#digest.catchUp(both).catch(() => undefined);
    try {
      const parts = this.#missing();
      const [first] = parts;
      if (first === undefined) return;
      let opened: (hasParts: boolean) => void = () => undefined;
      const hasParts = new Promise<boolean>((resolve) => (opened = resolve));
      const workers = Array.from({ length: this.#limits.connections }, async (_, index) => {
        // The first response shows whether the server supports ranges.
        if (index > 0 && !(await hasParts)) return;
        for (let part = parts.shift(); part !== undefined && !both.aborted; part = parts.shift()) {
          const isWhole = await this.#fetchPart(part, both, opened);
          if (isWhole) parts.splice(0, parts.length, ...this.#missing());
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

  /** Resolves with true if the digest is right; then the file is synced to disk. @throws `signal.reason` */
  async #isRight(signal: AbortSignal): Promise<boolean> {
    await this.#digest.catchUp(signal);
    signal.throwIfAborted();
    if (this.#digest.position !== this.#remote.sizeBytes || this.#digest.finish() !== this.#remote.digest) return false;
    await this.#file.sync();
    return true;
  }

  async #startAnew(): Promise<void> {
    this.#events.onLost(this.#file.written.bytes);
    await this.#file.reset();
    this.#digest.reset();
    this.#located = null;
    this.#hasRanges = false;
  }

  #missing(): Range[] {
    return this.#file.written.missing(this.#remote.sizeBytes, this.#limits.partBytes);
  }

  /** Resolves when the range is present; with true when the server sent the whole file instead, or the start of it. */
  async #fetchPart(part: Range, signal: AbortSignal, opened: (hasParts: boolean) => void): Promise<boolean> {
    let position = part.from;
    for (;;) {
      await this.#waitForPause(signal);
      const round = this.#round;
      let isWhole = false;
      try {
        const located = await this.#locate(signal);
        const asked = await this.#ask(located, position, part.to, signal);
        ({ isWhole } = asked);
        opened(!isWhole);
        const [from, to] = isWhole ? [0, this.#remote.sizeBytes] : [position, part.to];
        await this.#receive(asked.answer, from, to, signal, (reached) => (position = reached));
        return isWhole;
      } catch (error) {
        signal.throwIfAborted();
        this.#failed(error, round);
        // The start that came may reach beyond this part.
        if (isWhole) return true;
      }
    }
  }

  /** Requests a range. Resolves with a response that begins at `from`, or has the whole file. */
  async #ask(
    { url: first, named, credential }: Located,
    from: number,
    to: number,
    signal: AbortSignal,
  ): Promise<{ answer: WebAnswer; isWhole: boolean }> {
    const { etag } = this.#file;
    const ask = async (ifRange: string | null): Promise<WebAnswer> => {
      const headers = { range: `bytes=${from}-${to - 1}`, ...(ifRange === null ? {} : { 'if-range': ifRange }) };
      return await this.#web.follow({ url: first, headers, credential, signal }, named);
    };
    let answer = await ask(etag);
    if (answer.status === 200 && etag !== null) {
      // The ETag no longer matches: the file has changed or was moved.
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

  /** Returns true if the response has the whole file. @throws SvcError when it is not the requested range */
  async #judge(answer: WebAnswer, from: number, to: number): Promise<boolean> {
    const { status, header, url } = answer;
    const { sizeBytes } = this.#remote;
    if (status === 206) {
      const [, first, last, total] =
        /^bytes (\d{1,16})-(\d{1,16})\/(\d{1,16}|\*)$/.exec(header('content-range') ?? '') ?? [];
      if (total !== undefined && total !== '*' && Number(total) !== sizeBytes)
        throw this.#otherSize(url, Number(total));
      if (Number(first) !== from || Number(last) >= to) {
        throw downloadFailed(`${url.host} sent another byte range than requested`);
      }
      const etag = header('etag');
      if (etag?.startsWith('"') === true) await this.#file.setEtag(etag);
      this.#hasRanges = true;
      return false;
    }
    if (status === 200) {
      const length = header('content-length');
      if (length !== undefined && Number(length) !== sizeBytes) throw this.#otherSize(url, Number(length));
      if (this.#hasRanges) throw downloadFailed(`${url.host} sent the whole file instead of a part`);
      return true;
    }
    if (status === 416) throw this.#otherSize(url, null);
    if (leadsTo(answer) !== null) throw downloadFailed(`${url.host} redirects too many times`, { retryable: false });
    // An expired link is refused.
    const isRefused = [401, 403, 404, 410].includes(status);
    const pauseSeconds = retryAfterSeconds(header, Date.now());
    const message = `${url.host} answered with status ${status} when asked for ${this.#remote.name}`;
    throw new (isRefused ? LinkRefused : SvcError)('DOWNLOAD_FAILED', message, {
      retryable: isRefused || status >= 500 || [408, 425, 429].includes(status),
      ...(pauseSeconds === null ? {} : { retryAfterSeconds: pauseSeconds }),
    });
  }

  async #receive(
    { body, url }: WebAnswer,
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
        if (piece.length > wanted) throw downloadFailed(`${url.host} sent more bytes than requested`);
        pieces.push(piece);
        length += piece.length;
        if (length >= WRITE_BYTES) await write();
      }
      await write();
      if (position < to) throw downloadFailed(`${url.host} closed the connection early`);
    } catch (error) {
      throw connectionFailure(error, url);
    } finally {
      watch.end();
      body.destroy();
      // Also after a failure: the range is resumed from there, by this process or another.
      await write().catch(() => undefined);
      await this.#file.note(noted, position);
      void this.#digest.catchUp(signal).catch(() => undefined);
    }
  }

  /** Ends a body that arrives too slowly. undici's timeout notices only a body that is silent. */
  #watchRate(body: Readable, url: URL): { count(bytes: number): void; end(): void } {
    const { stallMs, stallBytes } = this.#limits;
    let bytes = 0;
    const timer = setInterval(() => {
      if (bytes < stallBytes) body.destroy(downloadFailed(`${url.host} sends data too slowly`));
      bytes = 0;
    }, stallMs);
    return { count: (more) => (bytes += more), end: () => clearInterval(timer) };
  }

  #progressed(bytes: number): void {
    this.#events.onBytes(bytes);
    this.#bytesSinceFailure += bytes;
    if (this.#bytesSinceFailure >= PROGRESS_BYTES) this.#failures = 0;
  }

  /**
   * Prolongs the pause before the next requests.
   * @param round the one in which the failed request began
   * @throws SvcError when a retry is pointless
   */
  #failed(thrown: unknown, round: number): void {
    const error = SvcError.from(thrown);
    if (error.code !== 'DOWNLOAD_FAILED' || !error.retryable) throw error;
    const grown = round === this.#round ? this.#nextRound(error) : 0;
    const asked = (error.retryAfterSeconds ?? 0) * 1000;
    if (asked > this.#limits.mostRetryAfterMs) {
      throw new SvcError(error.code, `${error.message} and asks to wait ${Math.ceil(asked / 60_000)} minutes`, {
        hint: 'the partial download is kept; run the same command later to resume it',
        retryAfterSeconds: asked / 1000,
        cause: error,
      });
    }
    const pauseMs = Math.max(grown, asked);
    if (pauseMs === 0) return;
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + pauseMs);
    this.#events.onRetry(error.message, pauseMs);
  }

  /** Counts a failure. Returns the pause that follows. @throws SvcError after too many */
  #nextRound(error: SvcError): number {
    this.#round += 1;
    this.#failures += error instanceof LinkRefused ? REFUSAL_FAILURES : 1;
    this.#bytesSinceFailure = 0;
    // The link may have expired.
    this.#located = null;
    const { failures, firstPauseMs, mostPauseMs } = this.#limits;
    if (this.#failures >= failures) {
      throw new SvcError(error.code, `${error.message}; gave up after repeated failures`, {
        hint: 'the partial download is kept; run the same command to resume it',
        cause: error,
      });
    }
    return Math.min(mostPauseMs, firstPauseMs * 2 ** (this.#failures - 1)) * (0.5 + Math.random() / 2);
  }

  async #waitForPause(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      // A request that fails meanwhile may prolong the pause.
      const left = this.#pausedUntil - performance.now();
      if (left <= 0) return;
      await sleep(left, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Resolves with the file's URL; one request is shared by all ranges. */
  async #locate(signal: AbortSignal): Promise<Located> {
    if (this.#located !== null) return this.#located;
    this.#locating ??= this.#remote.locate(signal).finally(() => (this.#locating = null));
    this.#located = await this.#locating;
    return this.#located;
  }

  #otherSize(url: URL, size: number | null): SvcError {
    const said = size === null ? 'has fewer' : `has ${size}`;
    return downloadFailed(`${this.#remote.name} should have ${this.#remote.sizeBytes} bytes, but ${url.host} ${said}`, {
      hint: 'the file was replaced or damaged at its source; try again later, or pull from another source',
      retryable: false,
    });
  }
}
