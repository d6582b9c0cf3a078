export interface FileResult {
  readonly file: string;
  readonly failed: number;
  /** Names of failed tests, then problems of the file itself. */
  readonly failures: readonly string[];
}
export function failedTests(output: string): string[];
export function failedNativeTests(output: string): string[];
export function describeFailures(results: readonly FileResult[]): string[];
