export class StepError extends Error {}

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
}

/** As run.js: returns what the program wrote to standard output. */
export function run(title: string, command: string, args: readonly string[], options?: RunOptions): Promise<string>;
export function shellWords(words: readonly string[]): string[];
