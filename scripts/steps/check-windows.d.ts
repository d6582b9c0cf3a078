export function checkWindowsFiles(paths: readonly string[]): Promise<readonly string[]>;
