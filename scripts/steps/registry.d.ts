export interface Registry {
  readonly url: string;
  close(): void;
}
export function startRegistry(folders: readonly string[], listed?: readonly object[]): Promise<Registry>;
