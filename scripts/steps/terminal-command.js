/** The command that gives a program a terminal of its own, as util-linux `script` makes it. */

/** Returns the program and its arguments. A size that is not given is unknown to the program. */
export function terminalCommand(words, { columns, rows } = {}) {
  const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  const size = [...(columns === undefined ? [] : ['cols', columns]), ...(rows === undefined ? [] : ['rows', rows])];
  const sized = size.length === 0 ? quoted : `stty ${size.join(' ')}; exec ${quoted}`;
  return ['script', ['--quiet', '--return', '--flush', '--command', sized, '/dev/null']];
}
