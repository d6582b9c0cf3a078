/** Returns `values` without the undefined ones, so that a field of a record can be absent without a condition. */
export function given<Values extends object>(
  values: Values,
): {
  [Key in keyof Values]?: Exclude<Values[Key], undefined>;
} {
  const entries = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Key in keyof Values]?: Exclude<Values[Key], undefined> };
}
