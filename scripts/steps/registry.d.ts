export interface Registry {
  readonly url: string;
  close(): void;
}
export interface RegistryOptions {
  readonly listed?: readonly object[];
  readonly others?: string | null;
}
export function startRegistry(folders: readonly string[], options?: RegistryOptions): Promise<Registry>;
