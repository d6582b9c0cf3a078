/** Formats values for people to read. */

const UNKNOWN = '-';

/** Formats a size in decimal units, as disks and model hubs do. */
export function bytes(count: number | null): string {
  if (count === null) return UNKNOWN;
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  return scaled(count, units, ' ');
}

/** `7.6B` parameters. */
export function short(count: number | null): string {
  return count === null ? UNKNOWN : scaled(count, ['', 'K', 'M', 'B', 'T'], '');
}

function scaled(count: number, units: readonly string[], space: string): string {
  let value = count;
  let unit = 0;
  // 999.5 would be rounded to 1000.
  while (unit < units.length - 1 && value >= (unit === 0 ? 1000 : 999.5)) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)}${space}${units[unit] ?? ''}`;
}

/** `3d 4h`, `2h 5m`, `1m 7s`, `42s`. */
export function duration(seconds: number | null): string {
  if (seconds === null) return UNKNOWN;
  const whole = Math.floor(seconds);
  const parts = [
    [Math.floor(whole / 86_400), 'd'],
    [Math.floor(whole / 3600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'm'],
    [whole % 60, 's'],
  ] as const;
  const first = parts.findIndex(([count]) => count > 0);
  if (first === -1) return '0s';
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${String(count)}${unit}`)
    .join(' ');
}

/** `12,345`. Not by toLocaleString(): its first call costs a command 25 ms. REQUIRES: a whole number. */
export function count(value: number | null): string {
  if (value === null) return UNKNOWN;
  let digits = String(value);
  for (let at = digits.length - 3; at > 0; at -= 3) digits = `${digits.slice(0, at)},${digits.slice(at)}`;
  return digits;
}

export function text(value: string | null): string {
  return value ?? UNKNOWN;
}

export function percent(value: number | null): string {
  return value === null ? UNKNOWN : `${value.toFixed(0)} %`;
}
