/**
 * The only file of the CLI that writes to the terminal. Standard output has data, standard error has messages. Each
 * may be a terminal independently of the other.
 */
import type { Interface } from 'node:readline';
import { Writable } from 'node:stream';
import { variable } from '../../process/environment.ts';
import { errorOfFiles } from '../../files/svc-error.ts';
import { SvcError } from '../../protocol/errors.ts';

type Stream = NodeJS.WriteStream;

const LEAST_COLUMNS = 20;

export interface Terminal {
  readonly isTerminal: boolean;
  readonly hasColour: boolean;
  /** Width for text: that of COLUMNS or of the terminal, otherwise 80. */
  readonly columns: number;
  /** Width for tables: without limit in a pipe, whose reader gets all of them. */
  readonly tableColumns: number;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
}

/** Terminal properties of standard output. */
export const out: Terminal = terminal(process.stdout);
/** Terminal properties of standard error. */
export const err: Terminal = terminal(process.stderr);

/** Prints one line of data. On a terminal, control characters are removed, as in all functions here. */
export function print(line: string): void {
  process.stdout.write(`${tame(line, out)}\n`);
}

/** Writes text of a model or a log. On a terminal, control characters are removed. */
export function write(text: string): void {
  process.stdout.write(out.isTerminal ? harmless(text) : text);
}

/** Writes what `render` makes of a model's text. Only its own escape sequences reach the terminal. */
export function writeRendered(text: string, render: (harmless: string) => string): void {
  process.stdout.write(render(harmless(text)));
}

/** Writes text of a model that is not its answer. */
export function writeDim(text: string): void {
  process.stdout.write(out.dim(out.isTerminal ? harmless(text) : text));
}

/** Shows dimmed text in place of the last that was shown, only on a terminal. An empty text clears it. */
export function writeInPlace(text: string): void {
  inPlace.show(text === '' ? '' : out.dim(text));
}

export function printJson(value: unknown): void {
  print(jsonOf(value, 2));
}

/** Prints one value of a JSON stream. */
export function printJsonLine(value: unknown): void {
  print(jsonOf(value));
}

/** Escapes also the control characters that JSON may have in strings. */
function jsonOf(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent).replace(
    /[\u007f-\u009f]/g,
    (control) => `\\u00${control.charCodeAt(0).toString(16)}`,
  );
}

/** Prints a message for the user. */
export function say(message: string): void {
  process.stderr.write(`svc: ${tame(message, err)}\n`);
}

/** Prints what to do about a failure that is already on the screen. */
export function sayHint(hint: string): void {
  process.stderr.write(`${err.dim('hint:')} ${tame(hint, err)}\n`);
}

/** Prints lines that belong to a message, such as the end of a log. */
export function sayMore(text: string): void {
  process.stderr.write(`${err.isTerminal ? harmless(text) : text}\n`);
}

/** Shows progress in place, only on a terminal. An empty text clears it. */
export function sayProgress(text: string): void {
  progress.show(text === '' ? '' : `svc: ${text}`);
}

/** Asks a yes/no question; Ctrl-D is a no. Undefined without a terminal. Throws CANCELLED on Ctrl-C. */
export async function askYesNo(question: string): Promise<boolean | undefined> {
  const answer = await ask(`svc: ${tame(question, err)} [y/N] `, false);
  return answer === undefined ? undefined : /^y(es)?$/i.test(answer.trim());
}

/** Reads a line without echoing it; otherwise as `askYesNo`. Empty if nothing is typed. */
export async function askSecret(question: string): Promise<string | undefined> {
  return await ask(`svc: ${tame(question, err)}: `, true);
}

/** Reads one line, empty on Ctrl-D; undefined without a terminal. Throws CANCELLED on Ctrl-C. */
async function ask(question: string, isHidden: boolean): Promise<string | undefined> {
  if (!err.isTerminal || !(process.stdin as { isTTY?: boolean }).isTTY) return undefined;
  const { createInterface } = await import('node:readline');
  const output = new PromptOutput();
  output.isMuted = isHidden;
  // Turns the terminal's echo off before the question is printed.
  const editor = createInterface({ input: process.stdin, output, terminal: true, historySize: 0, prompt: question });
  const show = (): boolean => process.stderr.write(question);
  if (isHidden) show();
  else editor.prompt();
  const answer = await new Promise<string | undefined | null>((resolve) => {
    resumeAfterStop(editor, isHidden ? show : undefined);
    editor.once('line', resolve);
    editor.once('close', () => {
      resolve(undefined);
    });
    editor.once('SIGINT', () => {
      resolve(null);
    });
  });
  editor.close();
  // The editor itself ends the line that is typed, if it shows it.
  if (isHidden || typeof answer !== 'string') process.stderr.write('\n');
  if (answer === null) throw new SvcError('CANCELLED', 'cancelled');
  return answer ?? '';
}

/**
 * Makes an editor read on when a stopped process continues (Ctrl-Z and `fg`): Node only pauses it and draws its line
 * again. `redraw` draws what the editor does not.
 */
export function resumeAfterStop(editor: Interface, redraw?: () => void): void {
  editor.on('SIGCONT', () => {
    editor.resume();
    // Node turns the terminal's echo off after this event.
    if (redraw !== undefined) setImmediate(redraw);
  });
}

/** Standard error for a line editor; can be muted while an answer is printed. */
export class PromptOutput extends Writable {
  isMuted = false;

  constructor() {
    super();
    process.stderr.on('resize', () => this.emit('resize'));
  }

  get columns(): number {
    return process.stderr.columns;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (!this.isMuted) process.stderr.write(chunk);
    done();
  }
}

/** Prints the error that ended the command. Returns its exit code. */
export function report(thrown: unknown, json: boolean): number {
  const error = errorOfFiles(thrown);
  sayProgress('');
  if (json) {
    const { code, message, hint } = error.toRecord();
    process.stderr.write(`${jsonOf({ error: { code, message, hint } })}\n`);
  } else {
    process.stderr.write(`${err.red('svc:')} ${tame(error.told, err)}\n`);
    if (error.hint !== undefined) sayHint(error.hint);
    if (error.code === 'INTERNAL' && error.cause instanceof Error)
      sayMore(err.dim(error.cause.stack ?? error.cause.message));
  }
  return error.facts.exit;
}

/** Ends the process if standard output fails: quietly if its reader is gone, otherwise with an error. */
export function guardOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    const failure = new SvcError('CANNOT_WRITE', `cannot write to standard output: ${error.message}`);
    process.exit(report(failure, false));
  });
  process.stderr.on('error', () => undefined);
}

/** Ends the process now, without waiting for work in flight. */
export function exit(code: number): never {
  process.exit(code);
}

/** Sets the code with which the process exits once all work is done. */
export function setExitCode(code: number): void {
  process.exitCode = code;
}

/**
 * A line of a terminal that is drawn again and again in its place. It is cut to the width of the terminal: of text that
 * has wrapped, only the last line could be erased.
 */
class DrawnLine {
  readonly #stream: Stream;
  readonly #terminal: Terminal;
  #text = '';
  readonly #onResize = (): void => {
    this.#draw();
  };

  constructor(stream: Stream, terminal: Terminal) {
    this.#stream = stream;
    this.#terminal = terminal;
  }

  /** Does nothing without a terminal. An empty text erases the line. */
  show(text: string): void {
    if (!this.#terminal.isTerminal || variable('TERM') === 'dumb' || text === this.#text) return;
    if (this.#text === '') this.#stream.on('resize', this.#onResize);
    this.#text = text;
    if (text !== '') {
      this.#draw();
      return;
    }
    this.#stream.off('resize', this.#onResize);
    this.#stream.write(ERASE_LINE);
  }

  #draw(): void {
    if (cut === undefined) {
      import('./width.ts').then(
        (width) => {
          cut = width.cut;
          this.#draw();
        },
        () => undefined,
      );
      return;
    }
    if (this.#text === '') return;
    // COLUMNS may be more than the terminal has. Some terminals wrap as soon as the last column is written.
    const columns = this.#stream.columns > 0 ? this.#stream.columns : this.#terminal.columns;
    const text = tame(this.#text, this.#terminal).replace(/\s/g, ' ');
    this.#stream.write(`${ERASE_LINE}${cut(text, columns - 1)}`);
  }
}

/** Loaded with the first line that is drawn: most commands draw none. */
let cut: ((text: string, cells: number) => string) | undefined;
const ERASE_LINE = '\r\u001b[K';
const inPlace = new DrawnLine(process.stdout, out);
const progress = new DrawnLine(process.stderr, err);

function terminal(stream: Stream): Terminal {
  // Missing at run time if the stream is not a terminal.
  const { isTTY = false } = stream as { isTTY?: boolean };
  const colour = wantsColour(isTTY);
  const paint = (open: number, close: number) => (colour ? sgr(open, close) : (text: string) => text);
  return {
    isTerminal: isTTY,
    hasColour: colour,
    get columns() {
      return columnsOf(stream);
    },
    get tableColumns() {
      return isTTY ? columnsOf(stream) : Infinity;
    },
    dim: paint(2, 22),
    red: paint(31, 39),
    green: paint(32, 39),
    yellow: paint(33, 39),
  };
}

/** A terminal whose width is unknown has 0 columns; a stream that is none has none. */
function columnsOf(stream: { readonly columns?: number }): number {
  const wanted = [Number(variable('COLUMNS')), stream.columns ?? 0].find((columns) => columns > 0) ?? 80;
  return Math.max(LEAST_COLUMNS, Math.floor(wanted));
}

/** Styles of rendered text, for a terminal that has them. */
export const STYLES = {
  bold: sgr(1, 22),
  italic: sgr(3, 23),
  strike: sgr(9, 29),
  underline: sgr(4, 24),
  code: sgr(36, 39),
  dim: sgr(2, 22),
} as const;

function sgr(open: number, close: number): (text: string) => string {
  return (text) => `\u001b[${String(open)}m${text}\u001b[${String(close)}m`;
}

function wantsColour(isTerminal: boolean): boolean {
  if (variable('NO_COLOR') !== undefined) return false;
  const forced = variable('FORCE_COLOR');
  if (forced !== undefined) return forced !== '0';
  return isTerminal && variable('TERM') !== 'dumb';
}

/** Removes control characters except tab and newline: a model must not control the terminal. */
function harmless(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '');
}

/** For a terminal, removes control characters as `harmless` does, but keeps colours and styles if it has them. */
function tame(text: string, { isTerminal, hasColour }: Terminal): string {
  if (!isTerminal) return text;
  if (!hasColour) return harmless(text);
  // Odd pieces are SGR sequences (colours and styles). SGR 8 would conceal text.
  // eslint-disable-next-line no-control-regex
  const pieces = text.split(/(\u001b\[(?:1;)?(?!8m)\d{1,2}m)/);
  return pieces.map((piece, at) => (at % 2 === 1 ? piece : harmless(piece))).join('');
}
