/**
 * Installs a GPU backend: downloads its npm package, verifies the digest that was recorded when svc was built, unpacks
 * the backend into a temporary directory, proves it there in a child process, and only then gives the directory the
 * name by which engines find it. Whatever fails, nothing of it is left; only an interrupted download is kept, to be
 * resumed.
 */
import { readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { tryBackend } from '../engine/gpu.ts';
import { nameOfKind } from '../engine/gpu/choose.ts';
import { proveGpu, type GpuProof } from '../engine/gpu-proof.ts';
import { backendFolder, backendsFolder, proofFile, type ProofRecord } from '../engine/gpu/installed.ts';
import type { BackendPackage } from '../engine/gpu/packages.ts';
import { withFileLock } from '../files/file-lock.ts';
import { makeDirectory } from '../files/make-directory.ts';
import type { Paths } from '../home/paths.ts';
import { Download, DOWNLOAD_LIMITS } from '../models/pull/download.ts';
import { PartialFile } from '../models/pull/partial-file.ts';
import { Web } from '../models/pull/web.ts';
import { askForSpace } from '../models/store/free-space.ts';
import { shaderFolder } from '../models/store/prefixes.ts';
import { progressReport } from '../files/rate.ts';
import { SvcError } from '../protocol/errors.ts';
import type { BytesDone } from '../protocol/routes.ts';
import { findTarball } from './npm-package.ts';
import type { NpmRegistry } from './npm-config.ts';
import { unpack } from './unpack.ts';

export type InstallEvent =
  | { readonly type: 'downloading'; readonly package: string; readonly total_bytes: number }
  | ({ readonly type: 'progress' } & BytesDone)
  | { readonly type: 'waiting'; readonly reason: string; readonly pause_ms: number }
  | { readonly type: 'proving' };

export interface InstallOptions {
  readonly backend: BackendPackage;
  readonly registry: NpmRegistry;
  readonly paths: Pick<Paths, 'dataDir' | 'cacheDir'>;
  /** Path of the built-in model. */
  readonly modelPath: string;
  readonly signal: AbortSignal;
  onEvent(event: InstallEvent): void;
}

const TEMPORARY = '.new-';

/** Replaces the installed backend, if any. @throws SvcError; `signal.reason` */
export async function installBackend(options: InstallOptions): Promise<ProofRecord> {
  const folder = backendsFolder(options.paths);
  const lock = { what: 'the GPU backends', retries: 0 };
  return await withFileLock(join(folder, '.lock'), lock, async () => {
    const temporary = join(folder, `${TEMPORARY}${String(process.pid)}`);
    await removeOthers(folder, (name) => !name.startsWith(TEMPORARY));
    try {
      await makeDirectory(temporary);
      await fetchInto(temporary, options);
      const proof = recordOf(await prove(temporary, options));
      await writeFile(proofFile(temporary), JSON.stringify(proof), { mode: 0o600 });
      const place = backendFolder(folder, options.backend);
      await rm(place, { recursive: true, force: true });
      await rename(temporary, place);
      await removeOthers(folder, (name) => name === basename(place));
      return proof;
    } finally {
      await rm(temporary, { recursive: true, force: true });
    }
  });
}

/** Removes all backends and partial downloads. Returns the number of backends. */
export async function removeBackends(paths: Pick<Paths, 'dataDir' | 'cacheDir'>): Promise<number> {
  const folder = backendsFolder(paths);
  return await withFileLock(join(folder, '.lock'), { what: 'the GPU backends', retries: 0 }, async () => {
    await rm(downloadsFolder(paths), { recursive: true, force: true });
    return await removeOthers(folder, () => false);
  });
}

/** Directory of partial downloads. */
function downloadsFolder({ cacheDir }: Pick<Paths, 'cacheDir'>): string {
  return join(cacheDir, 'backends');
}

/** Removes what this file has made in the folder, unless `isKept`. Returns the number of backends. */
async function removeOthers(folder: string, isKept: (name: string) => boolean): Promise<number> {
  const names = (await readdir(folder)).filter((name) => /^sha256-|^\.new-/.test(name) && !isKept(name));
  for (const name of names) await rm(join(folder, name), { recursive: true, force: true });
  return names.filter((name) => !name.startsWith(TEMPORARY)).length;
}

/** Downloads the package and unpacks the backend and its licence. */
async function fetchInto(folder: string, options: InstallOptions): Promise<void> {
  const { backend, paths, onEvent } = options;
  const downloads = downloadsFolder(paths);
  const hint = 'free some space, or move SVC_HOME';
  await askForSpace(downloads, backend.size_bytes, hint);
  await askForSpace(folder, backend.library_bytes, hint);
  onEvent({ type: 'downloading', package: `${backend.name}@${backend.version}`, total_bytes: backend.size_bytes });
  const file = await PartialFile.open(downloads, {
    digest: backend.digest,
    sizeBytes: backend.size_bytes,
    model: backend.name,
    aliases: [],
  });
  try {
    await download(file, options);
  } finally {
    await file.close();
  }
  try {
    const wanted = [backend.file, 'LICENSE'].map((path) => [path, basename(path)] as const);
    await unpack(file.path, folder, new Map(wanted));
  } finally {
    await rm(downloads, { recursive: true, force: true });
  }
}

async function download(file: PartialFile, { backend, registry, signal, onEvent }: InstallOptions): Promise<void> {
  const ca = registry.cafile === undefined ? undefined : await readFile(registry.cafile, 'utf8').catch(() => undefined);
  const web = new Web({ stallMs: DOWNLOAD_LIMITS.stallMs, ca });
  let done = file.written.bytes;
  const report = progressReport(backend.size_bytes, (progress) => onEvent({ type: 'progress', ...progress }));
  const remote = {
    name: backend.name,
    sizeBytes: backend.size_bytes,
    digest: backend.digest,
    locate: async (asked: AbortSignal) => ({
      url: await findTarball(web, registry, backend, asked),
      named: registry.url,
      credential: registry.credential,
    }),
  };
  const events = {
    onFetched: () => undefined,
    onBytes: (count: number) => report((done += count)),
    onLost: (count: number) => report((done -= count)),
    onRetry: (reason: string, pauseMs: number) => onEvent({ type: 'waiting', reason, pause_ms: pauseMs }),
  };
  try {
    await new Download(web, remote, file, DOWNLOAD_LIMITS, events).run(signal);
    report(done, true);
  } finally {
    await web.close();
  }
}

/** @throws SvcError why engines cannot use the backend; `signal.reason` */
async function prove(
  folder: string,
  { backend, paths, modelPath, signal, onEvent }: InstallOptions,
): Promise<GpuProof> {
  onEvent({ type: 'proving' });
  const module = join(folder, basename(backend.file));
  const trouble = await tryBackend(module);
  signal.throwIfAborted();
  if (trouble !== null) throw undone(backend, trouble.reason, trouble.hint);
  try {
    return await proveGpu({ module, modelPath, shaderFolder: shaderFolder(paths.cacheDir, modelPath), signal });
  } catch (error) {
    signal.throwIfAborted();
    const { message, hint } = SvcError.from(error);
    throw undone(backend, message, hint ?? 'update the GPU driver');
  }
}

function undone({ kind }: BackendPackage, reason: string, hint: string): SvcError {
  const other = kind === 'cuda' ? '; or try the other backend: svc gpu install vulkan' : '';
  return new SvcError('ENGINE_UNAVAILABLE', `the ${nameOfKind(kind)} backend was removed again: ${reason}`, {
    hint: hint + other,
  });
}

function recordOf({ device, tokensPerSecond }: GpuProof): ProofRecord {
  return { device, tokens_per_second: tokensPerSecond, proven_at: new Date().toISOString() };
}
