/** Formats a setting's value as `svc config set` takes it: text as it is, everything else as JSON. */
export function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
