/**
 * Paths in the store, made only here and only from checked digests and numbers. So no name, manifest or registry
 * entry can make a path that leads out of the store.
 *
 *   <dir>/blobs/sha256-<digest>                                   a file, named after its content
 *   <dir>/parts/sha256-<digest>/model-00001-of-00003.gguf         a model in parts, which libllama finds only by such
 *                                                                 names; the digest of the list of parts' digests
 */
import { createHash, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { partName } from '../gguf/part-names.ts';

export class StorePaths {
  readonly dir: string;

  constructor(dir: string) {
    this.dir = dir;
  }

  get blobs(): string {
    return join(this.dir, 'blobs');
  }

  blob(digest: string): string {
    return join(this.blobs, nameOf(digest));
  }

  /** A new name for an unfinished file; leftovers.ts deletes it if its writer does not. */
  unfinished(): string {
    return join(this.blobs, `.unfinished-${process.pid}-${randomUUID()}`);
  }

  /** The folder with one folder per model in parts. */
  get allParts(): string {
    return join(this.dir, 'parts');
  }

  /** The folder of a model in parts. */
  parts(digest: string): string {
    return join(this.allParts, nameOf(digest));
  }

  /** @param index from 0 */
  part(digest: string, index: number, count: number): string {
    return join(this.parts(digest), partName('model', index, count));
  }
}

/** Digest of a model in parts. */
export function digestOfParts(digests: readonly string[]): string {
  return `sha256:${createHash('sha256').update(digests.join('\n')).digest('hex')}`;
}

function nameOf(digest: string): string {
  const hexadecimal = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
  if (hexadecimal === undefined) throw new Error('not a digest');
  return `sha256-${hexadecimal}`;
}
