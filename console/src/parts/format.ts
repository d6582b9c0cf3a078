/** Numbers and times as text. */

const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const decimal = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const NONE = '–';

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : number.format(value);
}

/** 12345 → `12.3K`. */
export function short(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : compact.format(value);
}

/** `1 model`, `2 models`. */
export function plural(amount: number, one: string, many = `${one}s`): string {
  return `${number.format(amount)} ${amount === 1 ? one : many}`;
}

export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : `${decimal.format(value)} tokens/s`;
}

/** One line of facts, which breaks only between them. Absent ones are left out. */
export function factLine(facts: readonly (string | null)[]): string {
  return facts
    .filter((fact) => fact !== null && fact !== '')
    .map((fact) => fact?.replaceAll(' ', '\u00a0'))
    .join(' · ');
}

/** With a capital and a full stop. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? '' : '.');
}

interface Named {
  readonly model: string | null;
  readonly provider: string | null;
}

/** A model with its provider, if that is not this machine. */
export function modelName({ model, provider }: Named): string {
  if (model === null) return 'default model';
  return provider === null || provider === 'local' || model.startsWith(`${provider}/`) ? model : `${provider}/${model}`;
}

/** Decimal units, as disks and downloads have. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = value < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  return `${decimal.format(value / 1000 ** power)} ${units[power] ?? ''}`;
}

/** `950 ms`, `4.2 s`, `3 min`, `2 h 5 min`, `4 d 3 h`. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 1000) return `${number.format(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${decimal.format(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Time of day in the reader's zone. */
export function clock(time: string): string {
  return new Date(time).toLocaleTimeString('en-GB');
}

/** Day and time in the reader's zone. */
export function moment(time: string): string {
  return new Date(time).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
}
