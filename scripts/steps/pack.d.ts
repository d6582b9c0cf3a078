export function integrityOf(path: string): Promise<string>;
export function pack(folder: string, destination: string): Promise<string>;
