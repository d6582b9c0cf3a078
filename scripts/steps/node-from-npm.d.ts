export const NODES: string;
export function nodeFromNpm(platform: string, version: string): Promise<string>;
