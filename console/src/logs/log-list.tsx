/**
 * Ten thousand lines of which only those in sight are in the page. The list is one stop of the Tab key; arrow keys move
 * through its lines.
 */
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clock } from '../parts/format.ts';
import type { LogLine } from './log-lines.ts';

interface Props {
  readonly lines: readonly LogLine[];
  /** Number of the chosen line; null: none. */
  readonly chosen: number | null;
  onChoose(number: number): void;
}

/** Lines beyond each edge that are in the page too, so that scrolling shows no gap. */
const SPARE = 20;

export function LogList({ lines, chosen, onChoose }: Props): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 600, row: 24 });
  const isAtEnd = useRef(true);
  const { row } = sight;
  const first = Math.max(0, Math.floor(sight.top / row) - SPARE);
  const last = Math.min(lines.length, Math.ceil((sight.top + sight.height) / row) + SPARE);

  const look = (): void => {
    const element = frame.current;
    if (element === null) return;
    const { scrollTop: top, clientHeight: height, scrollHeight } = element;
    isAtEnd.current = top + height >= scrollHeight - row;
    setSight({ top, height, row: rowHeight() });
  };
  useEffect(() => {
    if (frame.current === null) return;
    const observer = new ResizeObserver(look);
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  // New lines are followed, unless the reader has scrolled up.
  useLayoutEffect(() => {
    if (isAtEnd.current && frame.current !== null) frame.current.scrollTop = frame.current.scrollHeight;
  }, [lines]);

  const at = lines.findIndex(({ number }) => number === chosen);
  const onKeyDown = (event: KeyboardEvent): void => {
    const next = nextOf(event.key, at, lines.length, Math.floor(sight.height / row));
    const line = next === null ? undefined : lines[next];
    if (next === null || line === undefined) return;
    event.preventDefault();
    onChoose(line.number);
    frame.current?.scrollTo({ top: Math.max(0, next * row - sight.height / 2) });
  };
  return (
    <div
      ref={frame}
      class="log"
      role="listbox"
      aria-label="Log lines"
      tabIndex={0}
      aria-activedescendant={at >= first && at < last ? `line-${String(chosen)}` : undefined}
      onScroll={look}
      onKeyDown={onKeyDown}
    >
      <div role="presentation" style={{ height: `${lines.length * row}px` }}>
        <div role="presentation" style={{ transform: `translateY(${first * row}px)` }}>
          {lines.slice(first, last).map((line, index) => (
            <Row
              key={line.number}
              line={line}
              place={first + index + 1}
              total={lines.length}
              isChosen={line.number === chosen}
              onChoose={onChoose}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  readonly line: LogLine;
  readonly place: number;
  readonly total: number;
  readonly isChosen: boolean;
  onChoose(number: number): void;
}

function Row({ line: { number, record }, place, total, isChosen, onChoose }: RowProps): JSX.Element {
  return (
    <div
      id={`line-${number}`}
      class={`log-row ${record.level}`}
      role="option"
      aria-selected={isChosen}
      aria-posinset={place}
      aria-setsize={total}
      onClick={() => onChoose(number)}
    >
      <time>{clock(record.time)}</time>
      <span class="level">{record.level}</span>
      <span class="message">{record.msg}</span>
      <span class="rest">{fieldsOf(record)}</span>
    </div>
  );
}

const SHOWN_APART = new Set(['level', 'time', 'msg', 'pid', 'hostname', 'v']);

function fieldsOf(record: LogLine['record']): string {
  return Object.entries(record)
    .filter(([name]) => !SHOWN_APART.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ');
}

/** Rows are 1.5 rem high (data.css). */
function rowHeight(): number {
  return 1.5 * parseFloat(getComputedStyle(document.documentElement).fontSize);
}

/** Index of the line that a key leads to; null: another key. */
function nextOf(key: string, at: number, length: number, page: number): number | null {
  const from = at === -1 ? length : at;
  const next = {
    ArrowUp: from - 1,
    ArrowDown: from + 1,
    PageUp: from - page,
    PageDown: from + page,
    Home: 0,
    End: length - 1,
  }[key];
  return next === undefined ? null : Math.max(0, Math.min(length - 1, next));
}
