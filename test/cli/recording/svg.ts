/**
 * An animated picture of a recording.
 *
 * Each version of a line is an element that CSS shows for its time; the lines move up as the terminal scrolls. Without
 * animations (`prefers-reduced-motion`, programs that know no CSS) the picture is the last screen.
 */
import type { Film, Run, Style, Version } from './film.ts';

const FONT_SIZE = 14;
const CELL_WIDTH = 8.4;
const LINE_HEIGHT = 18;
const MARGIN = 14;
const BACKGROUND = '#0d1117';
const FOREGROUND = '#d7dde4';
const PALETTE = [
  ...['#6e7681', '#ff7b72', '#57c46a', '#d8a53a', '#6cb0ff', '#c79bff', '#4fc8d4', '#d7dde4'],
  ...['#8b949e', '#ffa198', '#7ee08f', '#efc45f', '#9bcbff', '#dcbdff', '#7fe0ea', '#ffffff'],
];

export function toSvg(film: Film): string {
  const { title, columns, rows, seconds, versions, scrolls } = film;
  const [width, height] = [Math.ceil(columns * CELL_WIDTH), rows * LINE_HEIGHT];
  const percent = (at: number): string => `${Number(((at / seconds) * 100).toFixed(2))}%`;
  const shown = new Map<string, string>();
  const lines = versions.filter(({ runs }) => runs.length > 0).map((version) => lineOf(version, shown, percent));
  const top = (line: number): string => `transform:translateY(${-line * LINE_HEIGHT}px)`;
  const last = scrolls.at(-1)?.line ?? 0;
  const moves = scrolls.map(({ seconds: at, line }) => `${percent(at)}{${top(line)}}`).join('');
  const box = `width="${width + 2 * MARGIN}" height="${height + 2 * MARGIN}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${box} viewBox="0 0 ${width + 2 * MARGIN} ${height + 2 * MARGIN}">
<title>${escape(title)}</title>
<style>
text{font:${FONT_SIZE}px ui-monospace,Menlo,"DejaVu Sans Mono","Liberation Mono","Courier New",monospace;fill:${FOREGROUND};white-space:pre}
${PALETTE.map((color, number) => `.c${number}{fill:${color}}`).join('')}
.b{font-weight:bold}.d{opacity:.65}.i{font-style:italic}.u{text-decoration:underline}.o{visibility:hidden}
text,.s{animation:${seconds}s step-end infinite}
.s{${top(last)};animation-name:s}
@media(prefers-reduced-motion:reduce){text,.s{animation:none!important}}
@keyframes s{${moves}to{${top(last)}}}
${[...shown].map(([rule, name]) => `@keyframes ${name}{${rule}}`).join('\n')}
</style>
<rect width="100%" height="100%" rx="8" fill="${BACKGROUND}"/>
<svg x="${MARGIN}" y="${MARGIN}" width="${width}" height="${height}" xml:space="preserve"><g class="s">
${lines.join('\n')}
</g></svg>
</svg>
`;
}

/** Adds the keyframes of the version's time to `shown`, unless they are there. */
function lineOf(version: Version, shown: Map<string, string>, percent: (at: number) => string): string {
  const { line, from, to, runs } = version;
  const begin = from === 0 ? '' : `0%{visibility:hidden}`;
  const end = to === null ? 'to{visibility:visible}' : `${percent(to)},to{visibility:hidden}`;
  const rule = `${begin}${percent(from)}{visibility:visible}${end}`;
  const name = shown.get(rule) ?? `k${shown.size}`;
  shown.set(rule, name);
  const attributes = `y="${line * LINE_HEIGHT + FONT_SIZE}"${to === null ? '' : ' class="o"'} style="animation-name:${name}"`;
  return `<text ${attributes}>${runs.map(spanOf).join('')}</text>`;
}

/** The length keeps columns aligned in any font. */
function spanOf({ column, width, text, style }: Run): string {
  const x = Number((column * CELL_WIDTH).toFixed(1));
  const length = width > 1 ? ` textLength="${Number((width * CELL_WIDTH).toFixed(1))}"` : '';
  const names = classesOf(style);
  return `<tspan x="${x}"${length}${names === '' ? '' : ` class="${names}"`}>${escape(text)}</tspan>`;
}

function classesOf({ color, isBold, isDim, isItalic, isUnderlined }: Style): string {
  const names = [
    color === null ? [] : [`c${color}`],
    isBold ? ['b'] : [],
    isDim ? ['d'] : [],
    isItalic ? ['i'] : [],
    isUnderlined ? ['u'] : [],
  ];
  return names.flat().join(' ');
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
