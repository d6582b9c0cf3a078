/**
 * Reads the user's turns of a chat, from a line editor on a terminal or from the lines of a pipe. `"""` begins and ends
 * a turn of several lines; pasted text is one turn, however many lines it has.
 *
 * The editor stays open while an answer is printed, so that Ctrl-C arrives as a key and typed-ahead input is kept; only
 * its output is muted. Its history exists only in memory.
 */
import { createInterface, type Interface } from 'node:readline';
import { TextDecoder } from 'node:util';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { err, exit, PromptOutput, resumeAfterStop, say } from '../terminal/output.ts';

export interface Turns {
  /** Returns undefined at the end of the input. */
  next(): Promise<string | undefined>;
  close(): void;
}

const INTERRUPTED = 130;
const QUOTES = '"""';
const HISTORY_LINES = 1000;
const PROMPT = '>>> ';
const CONTINUED = '... ';
/** Escape sequences that switch the terminal's bracketed paste mode. */
const PASTE_MARKS = { on: '\u001b[?2004h', off: '\u001b[?2004l' } as const;

/** `onInterrupt` is called on Ctrl-C while no `next` is pending, that is during an answer. */
export function openTurns(onInterrupt: () => void): Turns & { readonly isTerminal: boolean } {
  const isTerminal = err.isTerminal && (process.stdin as { isTTY?: boolean }).isTTY === true;
  const lines = isTerminal ? new TerminalLines(onInterrupt) : new PipedLines(onInterrupt);
  return {
    isTerminal,
    next: () => nextTurn(lines),
    close: () => {
      lines.close();
    },
  };
}

interface Lines {
  /** Returns undefined at the end of the input, null if the user discarded the line. */
  next(isContinued: boolean): Promise<string | undefined | null>;
  close(): void;
}

async function nextTurn(lines: Lines): Promise<string | undefined> {
  for (;;) {
    const first = await lines.next(false);
    if (first === null) continue;
    if (!first?.startsWith(QUOTES)) return first;
    const rest = await untilQuotes(lines, first.slice(QUOTES.length));
    if (rest !== null) return rest;
  }
}

/** Reads up to the closing quotes or the end of the input. null: discarded. */
async function untilQuotes(lines: Lines, opening: string): Promise<string | null> {
  const collected: string[] = [];
  let size = 0;
  for (let line: string | undefined | null = opening; line !== undefined; line = await lines.next(true)) {
    if (line === null) return null;
    const isLast = line.trimEnd().endsWith(QUOTES);
    collected.push(isLast ? line.trimEnd().slice(0, -QUOTES.length) : line);
    size += line.length;
    if (size > LIMITS.bodyBytes) throw tooLarge();
    if (isLast) break;
  }
  // The quotes may be on lines of their own.
  return collected.join('\n').replace(/^\n|\n$/g, '');
}

class TerminalLines implements Lines {
  readonly #output = new PromptOutput();
  readonly #editor: Interface;
  readonly #onInterrupt: () => void;
  /** Lines typed during an answer. */
  readonly #queue: string[] = [];
  #waiting: ((line: string | undefined | null) => void) | undefined;
  #pasted: string[] = [];
  #isPasting = false;
  #isClosed = false;

  constructor(onInterrupt: () => void) {
    this.#onInterrupt = onInterrupt;
    this.#editor = createInterface({
      input: process.stdin,
      output: this.#output,
      terminal: true,
      historySize: HISTORY_LINES,
      removeHistoryDuplicates: true,
    });
    // After Ctrl-Z, the shell turns bracketed paste off.
    resumeAfterStop(this.#editor, () => this.#output.write(PASTE_MARKS.on));
    this.#editor.on('line', (line) => {
      this.#take(line);
    });
    const interrupt = (): void => this.#interrupt();
    this.#editor.on('SIGINT', interrupt);
    // A console of Windows may send the signal instead of the key.
    process.on('SIGINT', interrupt);
    this.#editor.once('close', () => {
      process.off('SIGINT', interrupt);
      this.#isClosed = true;
      this.#output.isMuted = false;
      this.#output.write(PASTE_MARKS.off);
      this.#settle(undefined);
    });
    process.stdin.on('keypress', (_text: unknown, key: { name?: string } | undefined) => {
      if (key?.name === 'paste-start') this.#isPasting = true;
      if (key?.name === 'paste-end') this.#isPasting = false;
    });
  }

  async next(isContinued: boolean): Promise<string | undefined | null> {
    const queued = this.#queue.shift();
    if (queued === undefined && this.#isClosed) return undefined;
    this.#output.isMuted = false;
    if (!this.#isClosed) this.#output.write(PASTE_MARKS.on);
    this.#editor.setPrompt(isContinued ? CONTINUED : PROMPT);
    if (queued !== undefined) {
      this.#output.write(`${this.#editor.getPrompt()}${queued}\n`);
      this.#output.isMuted = true;
      return queued;
    }
    const line = await new Promise<string | undefined | null>((resolve) => {
      this.#waiting = resolve;
      // `true` keeps typed-ahead text that has no newline yet.
      this.#editor.prompt(true);
    });
    this.#output.isMuted = true;
    return line;
  }

  close(): void {
    if (!this.#isClosed) this.#editor.close();
  }

  #take(line: string): void {
    if (this.#isPasting) {
      this.#pasted.push(line);
      return;
    }
    const whole = [...this.#pasted, line].join('\n');
    this.#pasted = [];
    if (this.#waiting === undefined) this.#queue.push(whole);
    else this.#settle(whole);
  }

  /** At the prompt, Ctrl-C discards the line. */
  #interrupt(): void {
    if (this.#waiting === undefined) {
      this.#onInterrupt();
      return;
    }
    const hadText = this.#editor.line !== '' || this.#pasted.length > 0;
    this.#pasted = [];
    this.#editor.write(null, { ctrl: true, name: 'e' });
    this.#editor.write(null, { ctrl: true, name: 'u' });
    this.#output.write('\n');
    if (!hadText) say('Ctrl-D or /exit leaves');
    this.#settle(null);
  }

  #settle(line: string | undefined | null): void {
    const resolve = this.#waiting;
    this.#waiting = undefined;
    resolve?.(line);
  }
}

class PipedLines implements Lines {
  readonly #lines = linesOfStdin();
  readonly #onSignal: () => void;
  #isWaiting = false;

  constructor(onInterrupt: () => void) {
    this.#onSignal = () => {
      if (this.#isWaiting) exit(INTERRUPTED);
      onInterrupt();
    };
    process.on('SIGINT', this.#onSignal);
  }

  async next(): Promise<string | undefined> {
    this.#isWaiting = true;
    const { value } = await this.#lines.next();
    this.#isWaiting = false;
    return value ?? undefined;
  }

  close(): void {
    process.off('SIGINT', this.#onSignal);
    process.stdin.destroy();
  }
}

/** Throws REQUEST_TOO_LARGE for a line that is too long, INPUT_INVALID if the input is not UTF-8. */
async function* linesOfStdin(): AsyncGenerator<string, undefined, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  for await (const chunk of process.stdin) {
    const pieces = (rest + decode(decoder, chunk as Buffer)).split('\n');
    rest = pieces.pop() ?? '';
    if (rest.length > LIMITS.bodyBytes) throw tooLarge();
    for (const line of pieces) yield line.replace(/\r$/, '');
  }
  rest += decode(decoder);
  if (rest !== '') yield rest;
  return undefined;
}

function decode(decoder: TextDecoder, chunk?: Buffer): string {
  try {
    return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
  } catch (error) {
    throw new SvcError('INPUT_INVALID', 'standard input is not text: it is not valid UTF-8', { cause: error });
  }
}

function tooLarge(): SvcError {
  return new SvcError('REQUEST_TOO_LARGE', `a turn has more than ${String(LIMITS.bodyBytes)} bytes`);
}
