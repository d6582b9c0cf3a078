/**
 * Makes a container image in the OCI image layout, without a container engine: the executable with its files beside it,
 * the C and C++ library of this machine, a user, and nothing else; no shell, no package manager.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { ARCHITECTURES, installProgram, secondsOfCommit, writerIn } from './deb.js';
import { makeExecutables } from './executable.js';
import { stagingFolder } from './pack.js';
import { manifest } from './platforms.js';
import { inRoot } from './root.js';
import { say, StepError } from './run.js';
import { copySystemLibraries } from './system-libraries.js';
import { tarOf } from './write-tar.js';

/** As in other images without a root user. */
const USER = 65532;
const HOME = '/var/lib/svc';
const HTTP_PORT = 7117;
const GRPC_PORT = 7118;
const TYPES = {
  index: 'application/vnd.oci.image.index.v1+json',
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+gzip',
};
const SECOND = 1e9;
/** Debian's packages of the C and C++ library. */
const NOTICES_OF_SYSTEM = ['libc6', 'libgcc-s1', 'libstdc++6'];

/** Returns the folder of the layout, build/executable/image. The same files make the same image, to the byte. */
export async function makeImage() {
  if (process.platform !== 'linux') throw new StepError('an image is made on Linux');
  const built = await makeExecutables();
  const seconds = Number(await secondsOfCommit());
  const system = await stagingFolder('image-system');
  const program = await stagingFolder('image-program');
  await installSystem(system, built);
  await installProgram(program, built);
  await setModes(program, (path) => path === join(program, 'usr/lib/svc/svc'));

  const fresh = await stagingFolder('image');
  await mkdir(join(fresh, 'blobs/sha256'), { recursive: true });
  say('packing the layers of the image');
  // What changes less comes first, so that an update does not transfer it again.
  const layers = [
    await addLayer(fresh, await tarOf(system, { seconds, owners: { [HOME.slice(1)]: USER } })),
    await addLayer(fresh, await tarOf(program, { seconds })),
  ];
  await writeLayout(fresh, layers, new Date(seconds * 1000).toISOString());
  const folder = inRoot('build/executable/image');
  await rm(folder, { recursive: true, force: true });
  await rename(fresh, folder);
  for (const each of [system, program]) await rm(each, { recursive: true });
  return folder;
}

async function installSystem(folder, { packaged, files }) {
  const put = writerIn(folder);
  await put('etc/passwd', `root:x:0:0:root:/root:/sbin/nologin\nsvc:x:${USER}:${USER}:svc:${HOME}:/sbin/nologin\n`);
  await put('etc/group', `root:x:0:\nsvc:x:${USER}:\n`);
  await put('etc/nsswitch.conf', 'hosts: files dns\n');
  for (const path of ['dev', 'proc', 'sys', 'tmp', HOME]) await mkdir(join(folder, path), { recursive: true });
  const native = (await readdir(join(files, 'bin'))).map((name) => join(files, 'bin', name));
  await copySystemLibraries([packaged, ...native], folder);
  for (const name of NOTICES_OF_SYSTEM) {
    const notice = `usr/share/doc/${name}/copyright`;
    if (existsSync(`/${notice}`)) await put(notice, await readFile(`/${notice}`));
  }
  await setModes(folder, (path) => /\/ld-linux[^/]*$/.test(path));
  await chmod(join(folder, 'tmp'), 0o1777);
  await chmod(join(folder, HOME), 0o700);
}

async function setModes(folder, isProgram) {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory() || (entry.isFile() && isProgram(path))) await chmod(path, 0o755);
    else if (entry.isFile()) await chmod(path, 0o644);
  }
}

/** Returns the layer's descriptor, and the digest of its content before compression. */
async function addLayer(folder, tar) {
  const descriptor = await addBlob(folder, TYPES.layer, gzipSync(tar, { level: 6 }));
  return { descriptor, diffId: digestOf(tar) };
}

async function writeLayout(folder, layers, created) {
  const config = await addJson(folder, TYPES.config, configOf(layers, created));
  const image = { schemaVersion: 2, mediaType: TYPES.manifest, config, layers: layers.map((each) => each.descriptor) };
  const name = `${manifest.name}:${manifest.version}`;
  const described = {
    ...(await addJson(folder, TYPES.manifest, image)),
    platform: { architecture: ARCHITECTURES[process.arch], os: 'linux' },
    annotations: { 'org.opencontainers.image.ref.name': manifest.version, 'io.containerd.image.name': name },
  };
  const index = { schemaVersion: 2, mediaType: TYPES.index, manifests: [described] };
  await writeFile(join(folder, 'index.json'), JSON.stringify(index));
  await writeFile(join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
  // Older versions of Docker read this list instead of index.json.
  const pathOf = ({ digest }) => `blobs/${digest.replace(':', '/')}`;
  const list = [{ Config: pathOf(config), RepoTags: [name], Layers: layers.map((each) => pathOf(each.descriptor)) }];
  await writeFile(join(folder, 'manifest.json'), JSON.stringify(list));
}

function configOf(layers, created) {
  return {
    created,
    architecture: ARCHITECTURES[process.arch],
    os: 'linux',
    config: {
      User: `${USER}:${USER}`,
      Env: [
        'PATH=/usr/bin',
        `SVC_HOME=${HOME}`,
        `SVC_HTTP_ADDR=0.0.0.0:${HTTP_PORT}`,
        `SVC_GRPC_ADDR=0.0.0.0:${GRPC_PORT}`,
      ],
      Entrypoint: ['/usr/bin/svc'],
      Cmd: ['serve'],
      WorkingDir: '/',
      ExposedPorts: { [`${HTTP_PORT}/tcp`]: {}, [`${GRPC_PORT}/tcp`]: {} },
      Volumes: { [HOME]: {} },
      StopSignal: 'SIGTERM',
      // Not in OCI's specification; Docker reads it. The control socket needs no key.
      Healthcheck: {
        Test: ['CMD', '/usr/bin/svc', 'health', '--source', 'socket'],
        Interval: 30 * SECOND,
        Timeout: 10 * SECOND,
        StartPeriod: 60 * SECOND,
        Retries: 3,
      },
      Labels: {
        'org.opencontainers.image.title': manifest.name,
        'org.opencontainers.image.version': manifest.version,
        'org.opencontainers.image.licenses': manifest.license,
        'org.opencontainers.image.description': 'svc, a local AI execution daemon',
      },
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    history: ['the C and C++ library, the user', manifest.name].map((text) => ({ created, created_by: text })),
  };
}

async function addJson(folder, mediaType, value) {
  return await addBlob(folder, mediaType, Buffer.from(JSON.stringify(value)));
}

async function addBlob(folder, mediaType, content) {
  const digest = digestOf(content);
  await writeFile(join(folder, 'blobs', digest.replace(':', '/')), content);
  return { mediaType, digest, size: content.length };
}

function digestOf(content) {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}
