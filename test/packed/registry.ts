/** A loopback npm registry that serves one package as if published, and redirects npm upstream for all others. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Registry {
  readonly url: string;
  close(): void;
}

/** `manifest`: package.json in `tarball`. `upstream`: registry of all other packages. */
export async function startRegistry(
  tarball: string,
  manifest: { readonly name: string; readonly version: string },
  upstream: string,
): Promise<Registry> {
  const bytes = await readFile(tarball);
  const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    if (path === `/${manifest.name}`) {
      // A registry records whether a version has a shrinkwrap file, and npm reads that file only then.
      const dist = { tarball: `${url}/${manifest.name}.tgz`, integrity };
      const versions = { [manifest.version]: { ...manifest, dist, _hasShrinkwrap: true } };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ name: manifest.name, 'dist-tags': { latest: manifest.version }, versions }));
    } else if (path === `/${manifest.name}.tgz`) {
      response.end(bytes);
    } else {
      response.writeHead(302, { location: new URL(path.slice(1), upstream).href }).end();
    }
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
