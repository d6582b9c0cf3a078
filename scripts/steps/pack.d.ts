export function pack(folder: string, destination: string): Promise<string>;
export function writeJson(path: string, value: unknown): Promise<void>;
