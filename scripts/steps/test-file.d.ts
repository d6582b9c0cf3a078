import type { FileResult } from './failures.js';

export interface TestFileResult extends FileResult {
  readonly passed: number;
  readonly skipped: number;
  readonly ms: number;
  readonly problems: readonly string[];
  readonly output: string;
}
export function runTestFile(file: string, scratch: string, node?: string, endMs?: number): Promise<TestFileResult>;
