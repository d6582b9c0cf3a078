import type { FileResult } from './failures.js';

export interface TestFileResult extends FileResult {
  readonly passed: number;
  readonly skipped: number;
  readonly ms: number;
  readonly problems: readonly string[];
  readonly output: string;
}

export interface TestFileOptions {
  readonly program?: string | undefined;
  readonly node?: string;
  readonly starved?: boolean;
  readonly endMs?: number;
}
export function runTestFile(file: string, scratch: string, options?: TestFileOptions): Promise<TestFileResult>;
