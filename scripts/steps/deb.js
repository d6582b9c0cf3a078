/** Makes the Debian package: the executable with its files beside it, the service of a system user, and the manuals. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, copyFile, cp, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { makeExecutables } from './executable.js';
import { stagingFolder } from './pack.js';
import { manifest } from './platforms.js';
import { inRoot } from './root.js';
import { run, StepError } from './run.js';
import { isInstalled } from './tools.js';

const NAME = manifest.name;
const CONFIG = '/etc/svc/config.json';
export const ARCHITECTURES = { x64: 'amd64', arm64: 'arm64' };
/** Versions of the C and C++ library that check-linux.js allows the native files to need. */
const DEPENDS = 'libc6 (>= 2.35), libgcc-s1 (>= 12), libstdc++6 (>= 12), systemd | systemd-standalone-sysusers';
/** Names of maintainer scripts, in scripts/debian. */
const SCRIPTS = ['postinst', 'prerm', 'postrm'];

/** Makes the package in build/executable; returns its path. The same files make the same package, to the byte. */
export async function makeDeb() {
  const architecture = ARCHITECTURES[process.arch];
  if (process.platform !== 'linux' || architecture === undefined) throw new StepError('there is no Debian here');
  if (!(await isInstalled('dpkg-deb'))) throw new StepError('`dpkg-deb` is not installed');
  const built = await makeExecutables();
  const folder = await stagingFolder('deb');
  await installProgram(folder, built);
  await installTexts(folder, built);
  const installed = await sizeOf(folder);
  await installControl(folder, architecture, installed);
  await setModes(folder);
  const file = inRoot('build/executable', `${NAME}_${manifest.version}_${architecture}.deb`);
  const epoch = await secondsOfCommit();
  const options = ['--root-owner-group', '-Zzstd', '-z9', '--build', folder, file];
  await run('making the Debian package', 'dpkg-deb', options, { env: { ...process.env, SOURCE_DATE_EPOCH: epoch } });
  await rm(folder, { recursive: true });
  return file;
}

/** Installs the executable in usr/lib/svc, with a link in usr/bin. */
export async function installProgram(folder, { packaged, files }) {
  const lib = join(folder, 'usr/lib/svc');
  await mkdir(lib, { recursive: true });
  await copyFile(packaged, join(lib, 'svc'));
  await cp(files, join(lib, basename(files)), { recursive: true });
  await mkdir(join(folder, 'usr/bin'), { recursive: true });
  await symlink('../lib/svc/svc', join(folder, 'usr/bin/svc'));
}

/** Returns a function that writes a file of the folder, with the folders above it. */
export function writerIn(folder) {
  return async (path, content) => {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  };
}

async function installTexts(folder, { files }) {
  const put = writerIn(folder);
  const { systemUnit } = await import('../../dist/service/systemd-unit.js');
  const environment = { SVC_HOME: '/var/lib/svc', SVC_CONFIG: CONFIG };
  const command = ['/usr/bin/svc', 'serve', '--mode', 'service'];
  await put('usr/lib/systemd/system/svc.service', systemUnit({ command, environment }));
  await put('usr/lib/sysusers.d/svc.conf', await readFile(inRoot('scripts/debian/sysusers.conf')));
  await put(CONFIG, await readFile(inRoot('scripts/debian/config.json')));
  await put('usr/share/man/man1/svc.1.gz', gzipSync(await readFile(inRoot('dist/svc.1')), { level: 9 }));
  await put('usr/share/bash-completion/completions/svc', await completion('bash'));
  await put('usr/share/zsh/vendor-completions/_svc', await completion('zsh'));
  await put('usr/share/fish/vendor_completions.d/svc.fish', await completion('fish'));
  const doc = `usr/share/doc/${NAME}`;
  await put(`${doc}/changelog.gz`, gzipSync(await readFile(inRoot('CHANGELOG.md')), { level: 9 }));
  const licences = ['LICENSE', 'THIRD_PARTY_NOTICES.md', 'LICENCES.md'].map((name) =>
    readFile(join(files, name), 'utf8'),
  );
  await put(`${doc}/copyright`, (await Promise.all(licences)).join('\n'));
}

async function completion(shell) {
  const { stdout } = await promisify(execFile)(process.execPath, [inRoot('bin/svc.cjs'), 'completion', shell]);
  return stdout;
}

async function installControl(folder, architecture, installed) {
  const control = join(folder, 'DEBIAN');
  await mkdir(control);
  await writeFile(join(control, 'control'), controlOf(architecture, installed));
  await writeFile(join(control, 'conffiles'), `${CONFIG}\n`);
  const sums = [];
  for (const path of await filesIn(folder)) {
    if (path.startsWith('DEBIAN/') || `/${path}` === CONFIG) continue;
    const md5 = createHash('md5').update(await readFile(join(folder, path)));
    sums.push(`${md5.digest('hex')}  ${path}\n`);
  }
  await writeFile(join(control, 'md5sums'), sums.join(''));
  for (const name of SCRIPTS) await copyFile(inRoot('scripts/debian', name), join(control, name));
}

/** daemontools has a program of the same name. */
const controlOf = (architecture, bytes) => `Package: ${NAME}
Version: ${manifest.version}
Architecture: ${architecture}
Maintainer: The developers of svc <svc@localhost>
Installed-Size: ${Math.ceil(bytes / 1024)}
Depends: ${DEPENDS}
Conflicts: daemontools
Section: utils
Priority: optional
Description: local AI execution daemon
 One background process that runs AI models on this machine, or sends requests
 to cloud providers, for programs that speak the APIs of OpenAI, Anthropic or
 Ollama, gRPC, or run the command svc. The package has Node, the engine and a
 small built-in model; the service listens on the loopback interface only.
`;

/** Whatever the umask was: all may read, root may write, programs and scripts may run. */
async function setModes(folder) {
  const programs = new Set(['usr/lib/svc/svc', ...SCRIPTS.map((name) => `DEBIAN/${name}`)]);
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isDirectory()) await chmod(path, 0o755);
    else if (entry.isFile()) await chmod(path, programs.has(path.slice(folder.length + 1)) ? 0o755 : 0o644);
  }
  await chmod(folder, 0o755);
}

/** Paths of all files, relative and sorted. */
async function filesIn(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();
}

async function sizeOf(folder) {
  const sizes = await Promise.all((await filesIn(folder)).map(async (path) => (await stat(join(folder, path))).size));
  return sizes.reduce((total, size) => total + size, 0);
}

/** Time of the current commit, which all files of a package get. */
export async function secondsOfCommit() {
  const git = promisify(execFile)('git', ['log', '-1', '--format=%ct'], { cwd: inRoot() });
  return (await git.catch(() => ({ stdout: '' }))).stdout.trim() || '0';
}
