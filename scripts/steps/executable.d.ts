export interface Executables {
  /** The executable that needs nothing beside it. */
  readonly executable: string;
  /** The executable of packages, which needs `files` beside it. */
  readonly packaged: string;
  /** Folder of its files. */
  readonly files: string;
  readonly digest: string;
}

/** `platform`: this machine's by default. */
export function makeExecutables(platform?: string): Promise<Executables>;
