export function systemLibraries(files: readonly string[]): Promise<string[]>;
export function copySystemLibraries(files: readonly string[], folder: string): Promise<void>;
