export interface TarballFile {
  readonly bytes: Buffer;
  readonly mode: number;
}
export function readTarball(path: string): Promise<Map<string, TarballFile>>;
