/** Running a batch file of Windows. Pure. */

/**
 * Returns the arguments of cmd.exe that run a batch file, which Node does not start by itself. Every argument is quoted
 * for the program and escaped for cmd, twice, because npm's batch files expand `%*` once more.
 */
export function batchArguments(path: string, args: readonly string[]): string[] {
  const escaped = (text: string): string => text.replace(/[()\][%!^"`<>&|;, *?]/g, '^$&');
  // Backslashes before a quotation mark, also before the one added at the end, are doubled.
  const quoted = (text: string): string => `"${text.replace(/(?<!\\)\\+(?="|$)/g, '$&$&').replaceAll('"', '\\"')}"`;
  const line = [escaped(path), ...args.map((each) => escaped(escaped(quoted(each))))].join(' ');
  return ['/d', '/s', '/c', `"${line}"`];
}
