/**
 * The usage ledger: requests and their tokens, for `svc usage` and for daily budgets.
 *
 * JSON lines, one file per month (UTC): `usage-2026-11.jsonl` in the state directory. `asked` is written before a
 * request goes to a provider with a budget, `answered` before the end of the answer reaches the caller. So a crash of
 * this process never makes a budget larger. The kernel has each line when `append` resolves; only a crash of the
 * machine can lose lines. Incomplete lines are skipped.
 */
import { readdir, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { ifMissing } from '../files/missing.ts';
import { openToAppend, openToRead } from '../files/open-file.ts';
import { StallTimer } from '../files/stall-timer.ts';
import type { ErrorCode } from '../protocol/errors.ts';
import { parsedJson } from '../protocol/foreign-text.ts';

export interface AskedLine {
  readonly event: 'asked';
  /** RFC 3339. */
  readonly at: string;
  readonly provider: string;
}
export interface AnsweredLine {
  readonly event: 'answered';
  readonly at: string;
  readonly provider: string;
  /** Name of the API key. null: none was sent. Absent: an older svc wrote the line. */
  readonly key?: string | null;
  /** null: no backend has begun to answer. */
  readonly model: string | null;
  readonly outcome: 'ok' | ErrorCode;
  /** null: no backend has started. */
  readonly input_tokens: number | null;
  /** null: not reported. */
  readonly cached_tokens: number | null;
  readonly output_tokens: number | null;
  /** The tokens were not reported: svc has estimated them (routing/estimate.ts). Absent: reported. */
  readonly estimated?: true;
}
export type UsageLine = AskedLine | AnsweredLine;

const FILE = /^usage-(\d{4}-\d{2})\.jsonl$/;

export class LedgerFile {
  readonly #dir: string;
  #month = '';
  #file: FileHandle | null = null;
  #writing: Promise<void> = Promise.resolve();
  /** Runs while a write is in flight. */
  readonly #stall = new StallTimer();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** True if a write has not completed for a second or more. */
  get standsStill(): boolean {
    return this.#stall.isStalled;
  }

  /** Resolves when the kernel has the line; rejects when it cannot be written. Lines keep the order of the calls. */
  async append(line: UsageLine): Promise<void> {
    const written = this.#writing.then(() => this.#write(line));
    this.#writing = written.catch(() => undefined);
    await written;
  }

  /** Resolves when all appended lines are written or have failed. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#letGo();
  }

  async #write(line: UsageLine): Promise<void> {
    this.#stall.restart();
    try {
      await this.#openMonth(line.at.slice(0, 7));
      await this.#file?.appendFile(`${JSON.stringify(line)}\n`);
    } catch (error) {
      // The next line opens the file again: the path may have another file by then.
      await this.#letGo();
      throw error;
    } finally {
      this.#stall.stop();
    }
  }

  async #openMonth(month: string): Promise<void> {
    if (this.#file !== null && this.#month === month) return;
    await this.#letGo();
    this.#file = await openToAppend(path.join(this.#dir, `usage-${month}.jsonl`));
    this.#month = month;
    // Ends an incomplete line; an empty line is ignored.
    await this.#file.appendFile('\n');
  }

  async #letGo(): Promise<void> {
    const file = this.#file;
    this.#file = null;
    await file?.close().catch(() => undefined);
  }
}

/**
 * Reads lines in the order of time; `from` is the first day, `2026-11-21`. A missing directory counts as empty.
 * Throws NotAFileError, or the error of the file system.
 */
export async function* readUsage(dir: string, from: string): AsyncGenerator<UsageLine, void, undefined> {
  const names = await readdir(dir).catch(ifMissing([]));
  for (const name of names.filter((each) => (FILE.exec(each)?.[1] ?? '') >= from.slice(0, 7)).sort()) {
    const file = await openToRead(path.join(dir, name));
    try {
      for await (const text of createInterface({ input: file.createReadStream(), crlfDelay: Infinity })) {
        const line = parseLine(text);
        if (line !== null && line.at >= from) yield line;
      }
    } finally {
      await file.close();
    }
  }
}

function parseLine(text: string): UsageLine | null {
  const value = parsedJson(text) as Partial<UsageLine> | null | undefined;
  return typeof value?.at === 'string' && typeof value.provider === 'string' ? (value as UsageLine) : null;
}
