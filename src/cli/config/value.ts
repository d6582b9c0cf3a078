/** A setting's value as it is printed, and as `svc config set` takes it: a text plain, all else as JSON. */
export function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
