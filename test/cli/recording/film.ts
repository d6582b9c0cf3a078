/** What a terminal showed, line by line: plays a recording in a terminal emulator. */
import type { IBufferCell, Terminal as Emulator } from '@xterm/headless';
import headless from '@xterm/headless';
import type { Cast } from './cast.ts';

export interface Style {
  /** Number in the palette of 16 colours; null: that of plain text. */
  readonly color: number | null;
  readonly isBold: boolean;
  readonly isDim: boolean;
  readonly isItalic: boolean;
  readonly isUnderlined: boolean;
  readonly isCursor: boolean;
}

/** Text of one style. */
export interface Run {
  readonly column: number;
  /** In columns. */
  readonly width: number;
  readonly text: string;
  readonly style: Style;
}

/** Content of a line for some time. */
export interface Version {
  /** Number of the line since the beginning of the recording. */
  readonly line: number;
  readonly from: number;
  /** Null for the last version of the line, which stays. */
  to: number | null;
  readonly runs: readonly Run[];
}

export interface Film {
  readonly title: string;
  readonly columns: number;
  readonly rows: number;
  readonly seconds: number;
  readonly versions: readonly Version[];
  /** First visible line from each time on. */
  readonly scrolls: readonly { readonly seconds: number; readonly line: number }[];
  /** Text of all lines at the end; a wrapped line is one. */
  readonly text: string;
}

/** Changes within a tenth of a second are shown together. */
const FRAMES_PER_SECOND = 10;
/** How long the end stays. */
const END_SECONDS = 5;
const CURSOR: Style = {
  color: null,
  isBold: false,
  isDim: false,
  isItalic: false,
  isUnderlined: false,
  isCursor: true,
};

/** Throws if the recording has a colour outside the palette of 16. */
export async function play(cast: Cast): Promise<Film> {
  const { title, width: columns, height: rows } = cast;
  const emulator = new headless.Terminal({ cols: columns, rows, scrollback: 100_000, allowProposedApi: true });
  const take = new Take(emulator);
  const frames = framesOf(cast);
  for (const { seconds, text } of frames) {
    await new Promise<void>((resolve) => {
      emulator.write(text, resolve);
    });
    take.add(seconds);
  }
  const end = (frames.at(-1)?.seconds ?? 0) + END_SECONDS;
  const { versions, scrolls } = take;
  return { title, columns, rows, seconds: end, versions, scrolls, text: textOf(emulator) };
}

/** Output of each moment, without long pauses. */
function framesOf({ output, idleSeconds }: Cast): { seconds: number; text: string }[] {
  const frames: { seconds: number; text: string }[] = [];
  let [clock, before] = [0, 0];
  for (const { seconds, text } of output) {
    clock += Math.min(seconds - before, idleSeconds);
    before = seconds;
    const moment = Math.round(clock * FRAMES_PER_SECOND) / FRAMES_PER_SECOND;
    const last = frames.at(-1);
    if (last?.seconds === moment) last.text += text;
    else frames.push({ seconds: moment, text });
  }
  return frames;
}

class Take {
  readonly versions: Version[] = [];
  readonly scrolls: { seconds: number; line: number }[] = [{ seconds: 0, line: 0 }];
  readonly #emulator: Emulator;
  /** Newest version of each line, and its runs as JSON. */
  readonly #newest = new Map<number, { version: Version; key: string }>();

  constructor(emulator: Emulator) {
    this.#emulator = emulator;
  }

  /** Keeps each line that has changed since the last call. */
  add(seconds: number): void {
    const { baseY, length } = this.#emulator.buffer.active;
    const before = this.scrolls.at(-1)?.line ?? 0;
    for (let line = before; line < length; line++) this.#addLine(line, seconds);
    if (baseY !== before) this.scrolls.push({ seconds, line: baseY });
  }

  #addLine(line: number, seconds: number): void {
    const runs = runsOf(this.#emulator, line);
    const key = JSON.stringify(runs);
    const newest = this.#newest.get(line);
    if (newest?.key === key || (newest === undefined && runs.length === 0)) return;
    if (newest !== undefined) newest.version.to = seconds;
    const version: Version = { line, from: seconds, to: null, runs };
    this.#newest.set(line, { version, key });
    this.versions.push(version);
  }
}

function runsOf(emulator: Emulator, line: number): Run[] {
  const { baseY, cursorX, cursorY } = emulator.buffer.active;
  const cells = emulator.buffer.active.getLine(line);
  const runs: (Run & { text: string; width: number })[] = [];
  for (let column = 0; column < emulator.cols; column++) {
    const cell = cells?.getCell(column);
    const isCursor = line === baseY + cursorY && column === cursorX;
    if (cell === undefined || cell.getWidth() === 0) continue;
    const text = isCursor ? '█' : cell.getChars() || ' ';
    const style = isCursor ? CURSOR : styleOf(cell);
    const last = runs.at(-1);
    if (last !== undefined && JSON.stringify(last.style) === JSON.stringify(style)) {
      last.text += text;
      last.width += cell.getWidth();
    } else {
      runs.push({ column, width: cell.getWidth(), text, style });
    }
  }
  return runs.map(withoutEnd).filter(({ text }) => text !== '');
}

/** Without blanks at the end. */
function withoutEnd(run: Run): Run {
  const text = run.text.trimEnd();
  return { ...run, text, width: run.width - (run.text.length - text.length) };
}

function styleOf(cell: IBufferCell): Style {
  const color = cell.isFgDefault() ? null : cell.getFgColor();
  if (color !== null && (!cell.isFgPalette() || color > 15))
    throw new Error(`no colour ${String(color)} in the palette`);
  return {
    color,
    isBold: cell.isBold() !== 0,
    isDim: cell.isDim() !== 0,
    isItalic: cell.isItalic() !== 0,
    isUnderlined: cell.isUnderline() !== 0,
    isCursor: false,
  };
}

function textOf(emulator: Emulator): string {
  const { active } = emulator.buffer;
  let text = '';
  for (let index = 0; index < active.length; index++) {
    const line = active.getLine(index);
    const isContinued = active.getLine(index + 1)?.isWrapped === true;
    text += `${line?.translateToString(!isContinued) ?? ''}${isContinued ? '' : '\n'}`;
  }
  return text.trimEnd();
}
