/** A loopback npm registry that serves the tarballs of folders as if published, and nothing else. */
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { basename, join } from 'node:path';
import { integrityOf } from '../../scripts/steps/pack.js';
import { readTarball } from '../../scripts/steps/tarball.js';

export interface Registry {
  readonly url: string;
  close(): void;
}

interface Version {
  readonly name: string;
  readonly version: string;
}

export async function startRegistry(folders: readonly string[]): Promise<Registry> {
  const listed = folders.map(async (folder) => (await readdir(folder)).map((name) => join(folder, name)));
  const tarballs = (await Promise.all(listed)).flat().filter((path) => path.endsWith('.tgz'));
  const paths = new Map(tarballs.map((path) => [`/${basename(path)}`, path]));
  const published = await Promise.all(tarballs.map(versionOf));
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '/');
    const tarball = paths.get(path);
    if (tarball !== undefined) {
      void readFile(tarball).then((bytes) => response.end(bytes));
      return;
    }
    const versions = published.filter(({ name }) => path === `/${name}`);
    response.statusCode = versions.length === 0 ? 404 : 200;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(documentOf(versions, url)));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  return {
    url,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

interface Published extends Version {
  readonly file: string;
  readonly integrity: string;
}

async function versionOf(tarball: string): Promise<Published> {
  const files = await readTarball(tarball);
  const manifest = JSON.parse(files.get('package.json')?.bytes.toString() ?? '{}') as Version;
  // A registry records whether a version has a shrinkwrap file, and npm reads that file only then.
  const _hasShrinkwrap = files.has('npm-shrinkwrap.json');
  return Object.assign(manifest, { _hasShrinkwrap, file: basename(tarball), integrity: await integrityOf(tarball) });
}

/** The answer of a registry about a package: all its versions. */
function documentOf(versions: readonly Published[], url: string): object {
  const entries = versions.map(({ file, integrity, ...manifest }) => [
    manifest.version,
    { ...manifest, dist: { tarball: `${url}/${file}`, integrity } },
  ]);
  const latest = versions.at(-1)?.version;
  return { name: versions[0]?.name, 'dist-tags': { latest }, versions: Object.fromEntries(entries) as object };
}
