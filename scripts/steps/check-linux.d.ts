export interface LinuxCheck {
  readonly problems: readonly string[];
  readonly versions: Readonly<Record<string, string>>;
}
export function checkLinuxFiles(
  platform: string,
  paths: readonly string[],
  node: ReadonlySet<string>,
): Promise<LinuxCheck>;
