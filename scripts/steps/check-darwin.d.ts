export interface DarwinCheck {
  readonly problems: readonly string[];
  readonly versions: { readonly macOS?: string };
}
export function checkDarwinFiles(
  paths: readonly string[],
  node: ReadonlySet<string>,
  oldest: string,
): Promise<DarwinCheck>;
export function checkMetal(paths: readonly string[]): Promise<readonly string[]>;
