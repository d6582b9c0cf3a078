export function integrityOf(path: string): Promise<string>;
