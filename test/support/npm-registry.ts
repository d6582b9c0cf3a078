/** A loopback npm registry: packuments with `dist`, and tarballs with ranges. Tests change what it answers. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { BackendPackage } from '../../src/engine/gpu/packages.ts';

export interface TarEntry {
  readonly path: string;
  readonly content?: string | Buffer;
  /** Type flag of tar; default a file. */
  readonly type?: string;
  /** A false size. */
  readonly size?: number;
}

/** A gzipped tar file with these entries. */
export function tarball(entries: readonly TarEntry[]): Buffer {
  const parts = entries.flatMap(({ path, content = '', type = '0', size }) => {
    const bytes = Buffer.from(content);
    const header = Buffer.alloc(512);
    header.write(path, 0, 100);
    header.write('0000644\0', 100);
    header.write(`${(size ?? bytes.length).toString(8).padStart(11, '0')}\0`, 124);
    header.write('        ', 148);
    header.write(type, 156);
    header.write('ustar\x0000', 257);
    const sum = header.reduce((all, byte) => all + byte, 0);
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    return [header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
  });
  return gzipSync(Buffer.concat([...parts, Buffer.alloc(1024)]), { level: 1 });
}

/** The record of a backend in this tarball. */
export function packageOf(bytes: Buffer, file: string): BackendPackage {
  return {
    name: '@node-llama-cpp/linux-x64-vulkan',
    version: '3.22.1',
    platform: 'linux-x64',
    kind: 'vulkan',
    cuda: null,
    file,
    kernels: null,
    integrity: `sha512-${createHash('sha512').update(bytes).digest('base64')}`,
    digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}`,
    size_bytes: bytes.length,
    library_bytes: bytes.length,
  };
}

export class NpmRegistry {
  /** Headers of the requests, in order. */
  readonly seen: IncomingMessage[] = [];
  /** Requests must have this value of `authorization`; null: none is needed. */
  authorization: string | null = null;
  /** Changes the packument. */
  change: (packument: { versions: Record<string, { dist: object }> }) => object = (packument) => packument;
  /** Hook; if it returns true, it has answered. */
  onTarball: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  readonly #bytes: Buffer;
  readonly #package: BackendPackage;
  #server!: Server;

  constructor(bytes: Buffer, published: BackendPackage) {
    this.#bytes = bytes;
    this.#package = published;
  }

  async start(): Promise<this> {
    this.#server = createServer((request, response) => this.#answer(request, response)).listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  /** Ends with a slash; below a path, as many companies' registries are. */
  get url(): URL {
    return new URL(`http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}/npm/`);
  }

  async stop(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.seen.push(request);
    const { name, version } = this.#package;
    const file = `/npm/${name}/-/backend-${version}.tgz`;
    if (this.authorization !== null && request.headers.authorization !== this.authorization) {
      response.writeHead(401).end('{}');
    } else if (request.url === `/npm/${name.replace('/', '%2f')}`) {
      const dist = { tarball: new URL(file, this.url).href, integrity: this.#package.integrity, shasum: 'old' };
      const packument = { name, 'dist-tags': { latest: version }, versions: { [version]: { name, version, dist } } };
      response.writeHead(200, { 'content-type': 'application/vnd.npm.install-v1+json' });
      response.end(JSON.stringify(this.change(packument)));
    } else if (request.url === file) {
      if (!this.onTarball(request, response)) this.#send(request, response);
    } else {
      response.writeHead(404).end('{"error":"Not found"}');
    }
  }

  #send(request: IncomingMessage, response: ServerResponse): void {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    if (from === undefined) {
      response.writeHead(200, { 'content-length': this.#bytes.length }).end(this.#bytes);
      return;
    }
    const piece = this.#bytes.subarray(Number(from), Number(to) + 1);
    const range = `bytes ${from}-${String(Number(from) + piece.length - 1)}/${String(this.#bytes.length)}`;
    response.writeHead(206, { 'content-range': range, 'content-length': piece.length, etag: '"1"' }).end(piece);
  }
}
