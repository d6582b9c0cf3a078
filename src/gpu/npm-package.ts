/**
 * Finds a version of a package in an npm registry: its packument has the URL of the tarball and its digest. A registry
 * is not trusted: what it serves must have the digests that were recorded when svc was built.
 */
import * as v from 'valibot';
import type { BackendPackage } from '../engine/gpu/packages.ts';
import { downloadFailed } from '../models/pull/failures.ts';
import type { Web } from '../models/pull/web.ts';
import { orElse } from '../protocol/foreign-text.ts';
import { SvcError } from '../protocol/errors.ts';
import type { NpmRegistry } from './npm-config.ts';

/** The short form, without readme and scripts. */
const PACKUMENT = 'application/vnd.npm.install-v1+json';
/** A packument has all versions of a package. */
const MOST_BYTES = 32 * 1024 * 1024;

const DistSchema = v.object({
  tarball: v.pipe(v.string(), v.maxLength(2048)),
  integrity: v.optional(v.string()),
});
const PackumentSchema = v.object({
  versions: v.record(v.string(), v.object({ dist: DistSchema })),
});

/**
 * Returns the URL of the tarball.
 * @throws SvcError PROVIDER_AUTH if the registry wants another credential; DOWNLOAD_FAILED; `signal.reason`
 */
export async function findTarball(
  web: Web,
  { url: base, credential }: NpmRegistry,
  { name, version, integrity }: BackendPackage,
  signal: AbortSignal,
): Promise<URL> {
  const url = new URL(name.replace('/', '%2f'), base);
  const { answer, value } = await web.json(
    { url, headers: { accept: PACKUMENT }, credential, signal },
    base,
    MOST_BYTES,
  );
  if (answer.status === 401 || answer.status === 403) {
    throw new SvcError(
      'PROVIDER_AUTH',
      `the npm registry ${base.host} refuses your credential (HTTP ${answer.status})`,
      {
        hint: 'log in: npm login; or check the token in your .npmrc',
      },
    );
  }
  if (answer.status === 404) throw absent(`the npm registry ${base.host} has no package ${name}`);
  if (answer.status !== 200) throw downloadFailed(`${base.host} answers with HTTP ${answer.status}`);
  const packument = v.safeParse(PackumentSchema, value);
  if (!packument.success) throw downloadFailed(`the answer of ${base.host} is not a packument`, { retryable: false });
  const dist = packument.output.versions[version]?.dist;
  if (dist === undefined) throw absent(`the npm registry ${base.host} has no version ${version} of ${name}`);
  const tarball = orElse(() => new URL(dist.tarball, base), null);
  if (tarball === null) throw downloadFailed(`${base.host} has an invalid URL for ${name}`, { retryable: false });
  if (dist.integrity !== undefined && dist.integrity !== integrity) {
    throw downloadFailed(
      `${name}@${version} at ${base.host} is not the package that svc was built with (digest mismatch)`,
      {
        hint: 'check the registry: npm config get registry',
        retryable: false,
      },
    );
  }
  return tarball;
}

function absent(message: string): SvcError {
  return downloadFailed(message, {
    hint: 'use a registry that has it: NPM_CONFIG_REGISTRY=URL svc gpu install',
    retryable: false,
  });
}
