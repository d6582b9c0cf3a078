/** Stores of other programs, made by hand as those programs make them. */
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export const MODELS: string = join(import.meta.dirname, '..', '..', 'build', 'models');

export interface Layers {
  /** By the type of the layer: a path of a file, or the text itself. */
  readonly [type: string]: { readonly file: string } | { readonly text: string };
}

export function sha256(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Writes a model into a store of Ollama; returns the paths of its blobs by type. */
export function writeOllama(store: string, name: string, layers: Layers): Record<string, string> {
  const blobs: Record<string, string> = {};
  const listed = Object.entries(layers).map(([type, layer]) => {
    const bytes = 'file' in layer ? readFileSync(layer.file) : Buffer.from(layer.text);
    const digest = sha256(bytes);
    blobs[type] = join(store, 'blobs', `sha256-${digest}`);
    write(blobs[type], bytes);
    return { mediaType: `application/vnd.ollama.image.${type}`, digest: `sha256:${digest}`, size: bytes.length };
  });
  write(join(store, 'manifests', name), JSON.stringify({ schemaVersion: 2, layers: listed }));
  return blobs;
}

/** Writes files of a repository into the hub's cache: blobs, and links to them. Returns the folder of the snapshot. */
export function writeHub(
  cache: string,
  repo: string,
  revision: string,
  files: Readonly<Record<string, string>>,
): string {
  const place = join(cache, `models--${repo.replace('/', '--')}`);
  const snapshot = join(place, 'snapshots', revision);
  for (const [name, file] of Object.entries(files)) {
    const blob = sha256(readFileSync(file));
    write(join(place, 'blobs', blob), readFileSync(file));
    mkdirSync(dirname(join(snapshot, name)), { recursive: true });
    const up = '../'.repeat(name.split('/').length + 1);
    symlinkSync(`${up}blobs/${blob}`, join(snapshot, name));
  }
  write(join(place, 'refs', 'main'), revision);
  return snapshot;
}

export function copyInto(file: string, place: string): string {
  mkdirSync(dirname(place), { recursive: true });
  copyFileSync(file, place);
  return place;
}

export function write(path: string, content: Buffer | string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
