/** The container image, unpacked as an engine does, and run: not as root, on a read-only root, with its health check. */
import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeImage } from '../../scripts/steps/image.js';
import { tarOf } from '../../scripts/steps/write-tar.js';
import { childEnvironment } from '../../src/process/environment.ts';
import { ask } from '../http/ask.ts';
import { inChroot, noChroot, spawnInChroot, type ChrootOptions } from '../support/chroot.ts';
import { unless } from '../support/skip.ts';
import { waitFor } from '../support/wait.ts';

const run = promisify(execFile);
const notLinux = process.platform === 'linux' ? undefined : 'an image is made on Linux';
const noKubectl = spawnSync('kubectl', ['version', '--client']).status === 0 ? undefined : 'there is no kubectl';

interface Descriptor {
  readonly digest: string;
  readonly size: number;
}
/** `image`: the layout; `root`: its layers, unpacked over each other. */
const world = { folder: '', image: '', root: '' };

test.before(async () => {
  world.folder = await mkdtemp(join(tmpdir(), 'svc-'));
  await chmod(world.folder, 0o755);
  world.root = join(world.folder, 'root');
  if (notLinux === undefined) world.image = await makeImage();
});

test.after(async () => {
  await rm(world.folder, { recursive: true, force: true });
});

/** The bytes of a blob, whose digest and size must be those of its descriptor. */
async function blob({ digest, size }: Descriptor): Promise<Buffer> {
  const bytes = await readFile(join(world.image, 'blobs', digest.replace(':', '/')));
  assert.is(bytes.length, size);
  assert.is(`sha256:${createHash('sha256').update(bytes).digest('hex')}`, digest);
  return bytes;
}

async function manifest(): Promise<{ config: any; layers: Buffer[] }> {
  const index = JSON.parse(await readFile(join(world.image, 'index.json'), 'utf8'));
  const { config, layers } = JSON.parse((await blob(index.manifests[0])).toString());
  return { config: JSON.parse((await blob(config)).toString()), layers: await Promise.all(layers.map(blob)) };
}

test('an archive has the files, modes, links and owners, and is always the same', async () => {
  const source = join(world.folder, 'source');
  const long = `${'a'.repeat(60)}/${'b'.repeat(60)}`;
  await mkdir(join(source, long), { recursive: true });
  await writeFile(join(source, long, 'file'), 'text', { mode: 0o640 });
  await run('ln', ['-s', 'file', join(source, long, 'link')]);
  const archive = await tarOf(source, { owners: { [`${long}/file`]: 1234 }, seconds: 86_400 });
  assert.ok(archive.equals(await tarOf(source, { owners: { [`${long}/file`]: 1234 }, seconds: 86_400 })));
  const file = join(world.folder, 'archive.tar');
  await writeFile(file, archive);
  const { stdout } = await run('tar', ['--list', '--verbose', '--numeric-owner', '--utc', '--file', file]);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => line.replace(/ +/g, ' '));
  assert.is(lines.length, 4);
  assert.ok(lines.includes(`-rw-r----- 1234/1234 4 1970-01-02 00:00 ${long}/file`), stdout);
  assert.ok(lines.includes(`lrwxrwxrwx 0/0 0 1970-01-02 00:00 ${long}/link -> file`), stdout);
  await rm(source, { recursive: true });
  await mkdir(join(source, 'c'.repeat(120)), { recursive: true });
  assert.match(String(await tarOf(source).catch((error: unknown) => error)), /too long for tar/);
});

unless(notLinux, test)('every digest of the layout is right, and the image asks for no root', async () => {
  const { config, layers } = await manifest();
  assert.equal(
    layers.map((layer) => `sha256:${createHash('sha256').update(gunzipSync(layer)).digest('hex')}`),
    config.rootfs.diff_ids,
  );
  assert.is(config.config.User, '65532:65532');
  assert.equal(config.config.Entrypoint, ['/usr/bin/svc']);
  assert.ok(config.config.ExposedPorts['7117/tcp']);
  const blobs = await readdir(join(world.image, 'blobs', 'sha256'));
  assert.is(blobs.length, layers.length + 2, 'no blob is left over');
  const [list] = JSON.parse(await readFile(join(world.image, 'manifest.json'), 'utf8'));
  for (const path of [list.Config, ...list.Layers]) assert.ok(blobs.includes(path.replace('blobs/sha256/', '')));
});

/** Unpacks the layers, and returns the options to run the image with a new volume. */
async function installImage({ User, Env }: any, layers: readonly Buffer[]): Promise<ChrootOptions> {
  await mkdir(world.root);
  const archive = join(world.folder, 'layer.tar.gz');
  for (const layer of layers) {
    await writeFile(archive, layer);
    await run('tar', [
      '--extract',
      '--gzip',
      '--same-owner',
      '--same-permissions',
      '-C',
      world.root,
      '--file',
      archive,
    ]);
  }
  const volume = join(world.folder, 'volume');
  await mkdir(volume, { mode: 0o700 });
  await chown(volume, 65532, 65532);
  const env = Object.fromEntries(Env.map((each: string) => each.split(/=(.*)/s))) as Record<string, string>;
  return {
    // Any free ports: other tests run beside this one.
    env: { ...env, SVC_HTTP_ADDR: '0.0.0.0:0', SVC_GRPC_ADDR: '0.0.0.0:0' },
    user: User,
    volume: { folder: volume, at: '/var/lib/svc' },
  };
}

/** As with `fsGroup` and a secret mounted on data/: root owns both, and the keys are a link that the group may read. */
async function ownAsKubernetesDoes(volume: string): Promise<void> {
  const data = join(volume, 'data');
  const secret = join(data, '..2026', 'keys.json');
  await mkdir(dirname(secret));
  await rename(join(data, 'keys.json'), secret);
  await symlink('..2026', join(data, '..data'));
  await symlink(join('..data', 'keys.json'), join(data, 'keys.json'));
  await chown(secret, 0, 65532);
  await chmod(secret, 0o440);
  for (const folder of [data, dirname(secret)]) {
    await chown(folder, 0, 65532);
    await chmod(folder, 0o755);
  }
  await chown(volume, 0, 65532);
  await chmod(volume, 0o2775);
}

unless(notLinux ?? noChroot(), test)(
  'it serves as a user without rights, on a read-only root, until SIGTERM',
  async () => {
    const { config: image, layers } = await manifest();
    const { Entrypoint, Cmd, Healthcheck } = image.config;
    const options = await installImage(image.config, layers);
    const svc = (...args: string[]): Promise<{ stdout: string }> =>
      inChroot(world.root, [...Entrypoint, ...args], options);

    const refused = await svc(...Cmd).catch((error: unknown) => error as { code: number });
    assert.is('code' in refused ? refused.code : 0, 78, 'not without a key on all addresses');
    const { key } = JSON.parse((await svc('key', 'add', 'probe', '--json')).stdout);
    await ownAsKubernetesDoes(join(world.folder, 'volume'));

    const child = spawnInChroot(world.root, [...Entrypoint, ...Cmd], options);
    const output: Buffer[] = [];
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => output.push(chunk));
    try {
      await waitFor('the health check to pass', async () => {
        if (child.exitCode !== null) throw new Error(Buffer.concat(output).toString());
        return await inChroot(world.root, Healthcheck.Test.slice(1), options);
      });
      const status = await readFile(`/proc/${String(child.pid)}/status`, 'utf8');
      assert.match(status, /^Uid:\t65532\t65532\t65532\t65532$/m);
      const mounts = await readFile(`/proc/${String(child.pid)}/mountinfo`, 'utf8');
      assert.match(mounts, /^\S+ \S+ \S+ \S+ \/ ro[, ]/m);

      const { http } = JSON.parse((await svc('status', '--json')).stdout);
      const port = Number(String(http).split(':').at(-1));
      for (const path of ['/livez', '/readyz']) assert.is((await ask({ port }, path)).status, 200, path);
      assert.is((await ask({ port }, '/metrics')).status, 401);
      const metrics = await ask({ port }, '/metrics', { headers: { authorization: `Bearer ${String(key)}` } });
      assert.is(metrics.status, 200);
      assert.match(metrics.text, /^svc_/m);
      assert.ok((await svc('run', '--max-tokens', '4', 'Hello')).stdout.length > 0);
    } finally {
      child.kill('SIGTERM');
    }
    if (child.exitCode === null) await once(child, 'exit');
    assert.is(child.exitCode, 0, Buffer.concat(output).toString());
  },
);

test('the examples use the image and the user that are built', async () => {
  const { version } = JSON.parse(await readFile('package.json', 'utf8'));
  for (const name of ['compose.yaml', 'kubernetes.yaml']) {
    const text = await readFile(join('examples', name), 'utf8');
    assert.match(text, `image: svc-runtime:${String(version)}\n`);
  }
});

/** Fields of an object that kubectl does not know: it drops them where a command reads the object by its type. */
async function unknownFields(object: string, ...command: string[]): Promise<string[]> {
  const file = join(world.folder, 'object.yaml');
  await writeFile(file, object);
  const args = ['--kubeconfig=/dev/null', 'set', command[0] ?? '', '--local', '--dry-run=client', '--output=json'];
  const env = childEnvironment({ HOME: world.folder, KUBECONFIG: undefined });
  const { stdout } = await run('kubectl', [...args, '--filename', file, ...command.slice(1)], { env });
  const fields = [...object.replace(/#.*$/gm, '').matchAll(/(?:^[ -]*|[{,] )(\w+):(?= |$)/gm)].map(
    ([, field = '']) => field,
  );
  return [...new Set(fields)].filter((field) => !stdout.includes(`"${field}":`));
}

unless(noKubectl, test)('kubectl knows every field of the example for Kubernetes', async () => {
  const objects = (await readFile('examples/kubernetes.yaml', 'utf8')).split(/^---$/m);
  const named = (kind: string): string => objects.find((each) => new RegExp(`^kind: ${kind}$`, 'm').test(each)) ?? '';
  const workload = named('StatefulSet');
  assert.equal(await unknownFields(workload, 'image', 'svc=other'), []);
  assert.equal(await unknownFields(workload.replace('periodSeconds: 20', 'period: 20'), 'image', 'svc=other'), [
    'period',
  ]);
  assert.equal(await unknownFields(named('Service'), 'selector', 'app=svc'), []);
});

test.run();
