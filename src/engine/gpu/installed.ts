/**
 * GPU backends that `svc gpu install` has put into svc's data directory:
 *
 *   <data>/backends/sha256-<digest of the package>/libggml-vulkan.so
 *   <data>/backends/sha256-<digest of the package>/proof.json
 *
 * A directory has its name only after its backend was proven. It is of use only while the digest is one of
 * packages.ts: another version of svc needs another backend.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as v from 'valibot';
import { ownPaths, type Paths } from '../../home/paths.ts';
import { orElse, parsedJson } from '../../protocol/foreign-text.ts';
import { BACKEND_PACKAGES, type BackendPackage } from './packages.ts';

/** Result of the proof, in `proof.json`. */
const ProofSchema = v.object({
  /** Device, as ggml reports it. */
  device: v.string(),
  tokens_per_second: v.number(),
  proven_at: v.string(),
});
export type ProofRecord = v.InferOutput<typeof ProofSchema>;

export interface InstalledBackend {
  readonly package: BackendPackage;
  readonly folder: string;
  /** Path of the library that engines load. */
  readonly module: string;
  /** null: its file is missing or damaged. */
  readonly proof: ProofRecord | null;
}

/** Directory of all installed backends. */
export function backendsFolder({ dataDir }: Pick<Paths, 'dataDir'>): string {
  return join(dataDir, 'backends');
}

/** Directory of one backend. */
export function backendFolder(folder: string, { digest }: Pick<BackendPackage, 'digest'>): string {
  return join(folder, digest.replace(':', '-'));
}

export function proofFile(folder: string): string {
  return join(folder, 'proof.json');
}

/**
 * Returns the backend in a directory of backends, or null.
 * @param packages those that fit this svc; tests replace them
 */
export function installedBackend(
  folder: string,
  packages: readonly BackendPackage[] = BACKEND_PACKAGES,
): InstalledBackend | null {
  for (const each of packages) {
    const own = backendFolder(folder, each);
    const module = join(own, basename(each.file));
    if (!existsSync(module)) continue;
    const proof = v.safeParse(ProofSchema, parsedJson(orElse(() => readFileSync(proofFile(own), 'utf8'), '')));
    return { package: each, folder: own, module, proof: proof.success ? proof.output : null };
  }
  return null;
}

/** Returns the backend that engines of this user load. `isOther`: there is one, for another version of svc. */
export function backendOfUser(): { readonly installed: InstalledBackend | null; readonly isOther: boolean } {
  const folder = orElse(() => backendsFolder(ownPaths()), null);
  if (folder === null) return { installed: null, isOther: false };
  const installed = installedBackend(folder);
  const names = orElse(() => readdirSync(folder), []);
  return { installed, isOther: installed === null && names.some((name) => name.startsWith('sha256-')) };
}
