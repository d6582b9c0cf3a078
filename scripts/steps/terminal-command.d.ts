export interface TerminalSize {
  readonly columns?: number;
  readonly rows?: number;
}

/** As terminal-command.js. */
export function terminalCommand(words: readonly string[], size?: TerminalSize): [program: string, args: string[]];
