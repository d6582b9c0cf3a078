export interface MarkedProcess {
  readonly pid: number;
  readonly command: string;
}

/** Processes that have `variable` with this value in their environment. Linux only; elsewhere none are found. */
export function processesWith(variable: string, value: string): Promise<MarkedProcess[]>;
/** Kills a process; no error if it has already ended. */
export function killQuietly(pid: number): void;
