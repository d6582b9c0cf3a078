export const CONSOLE: string;
export function buildConsole(): Promise<void>;
export function bundledPackages(): Promise<string[]>;
