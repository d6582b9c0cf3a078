export interface Registry {
  readonly url: string;
  close(): void;
}
export function startRegistry(folders: readonly string[]): Promise<Registry>;
