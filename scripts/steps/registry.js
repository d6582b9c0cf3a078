/** A loopback npm registry that serves the tarballs of folders as if published. */
import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { basename, join } from 'node:path';
import { integrityOf } from './pack.js';
import { readTarball } from './tarball.js';

/**
 * Resolves with its `url` and `close()`. `listed`: manifests of packages that were published, too, but that nobody here
 * downloads. `others`: address of the registry that has all other packages; without it there are none.
 */
export async function startRegistry(folders, { listed = [], others = null } = {}) {
  const found = folders.map(async (folder) => (await readdir(folder)).map((name) => join(folder, name)));
  const tarballs = (await Promise.all(found)).flat().filter((path) => path.endsWith('.tgz'));
  const paths = new Map(tarballs.map((path) => [`/${basename(path)}`, path]));
  const published = await Promise.all(tarballs.map(versionOf));
  published.push(...listed.filter(({ name }) => !published.some((each) => each.name === name)));
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '/');
    const tarball = paths.get(path);
    if (tarball !== undefined) {
      response.writeHead(200);
      readFile(tarball)
        .then((bytes) => response.end(bytes))
        .catch(() => response.destroy());
      return;
    }
    const versions = published.filter(({ name }) => path === `/${name}`);
    if (versions.length === 0 && others !== null) {
      response.writeHead(302, { location: `${others.replace(/\/?$/, '/')}${request.url.slice(1)}` }).end();
      return;
    }
    response.statusCode = versions.length === 0 ? 404 : 200;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(documentOf(versions, url)));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${server.address().port}`;
  return {
    url,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function versionOf(tarball) {
  const files = await readTarball(tarball);
  const manifest = JSON.parse(files.get('package.json')?.bytes.toString() ?? '{}');
  return Object.assign(manifest, { file: basename(tarball), integrity: await integrityOf(tarball) });
}

/** The answer of a registry about a package: all its versions. */
function documentOf(versions, url) {
  const entries = versions.map(({ file, integrity, ...manifest }) => [
    manifest.version,
    { ...manifest, dist: { tarball: `${url}/${file}`, integrity } },
  ]);
  const latest = versions.at(-1)?.version;
  return { name: versions[0]?.name, 'dist-tags': { latest }, versions: Object.fromEntries(entries) };
}
