/** Recordings of a terminal in the format asciicast v2: a line of JSON for the header, then one for each event. */

export interface Cast {
  readonly width: number;
  readonly height: number;
  readonly title: string;
  /** Players shorten longer pauses to this many seconds. */
  readonly idleSeconds: number;
  readonly output: readonly Output[];
}

export interface Output {
  /** Since the beginning of the recording. */
  readonly seconds: number;
  readonly text: string;
}

export function formatCast({ width, height, title, idleSeconds, output }: Cast): string {
  const header = { version: 2, width, height, idle_time_limit: idleSeconds, title, env: { TERM: 'xterm-256color' } };
  const events = output.map(({ seconds, text }) => [Number(seconds.toFixed(3)), 'o', text]);
  return [header, ...events].map((line) => `${JSON.stringify(line)}\n`).join('');
}

export function parseCast(text: string): Cast {
  const [header, ...events] = text
    .trimEnd()
    .split('\n')
    .map((line): any => JSON.parse(line));
  return {
    width: header.width,
    height: header.height,
    title: header.title,
    idleSeconds: header.idle_time_limit,
    output: events.map(([seconds, , data]) => ({ seconds, text: data })),
  };
}
