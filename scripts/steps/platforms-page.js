/** Keeps what was measured and run on each platform (npm/tested.json), and the page made from it, docs/platforms.md. */
import { writeFile } from 'node:fs/promises';
import { format, resolveConfig } from 'prettier';
import { writeJson } from './pack.js';
import { packageName, platforms, readJson } from './platforms.js';
import { inRoot } from './root.js';

const TESTED = 'npm/tested.json';
const PAGE = 'docs/platforms.md';
const MB = 1e6;

/** How each package is built and run; what a number says is in TESTED. */
const TEXT = {
  'linux-x64': {
    built: '`npm run packages` on Linux x64',
    run: '`npm test`, `npm run check`, `npm run chaos`; `test/packed` installs the package as a user does',
    not: 'musl; processors older than those with SSE4.2',
  },
  'linux-arm64': {
    built: "`npm run packages -- linux-arm64` with Debian's cross compiler, or on Linux arm64",
    run: '`node scripts/qemu.js`, under qemu-user',
    not: "a real arm64 processor; the sandbox, which qemu does not pass on; speed; GPUs; the daemon's end-to-end tests",
  },
  'win32-x64': {
    built: "`npm run packages -- win32-x64` with Debian's MinGW-w64, libllama from source",
    run: '`node scripts/wine.js`, under Wine',
    not: "Windows itself; the Task Scheduler, PowerShell; GPUs; speed; the daemon's end-to-end tests",
  },
  'darwin-arm64': {
    built: '`.github/workflows/release.yml`, with Metal; never built as a package',
    run: 'never; compiled without Metal on Linux: see below',
    not: 'everything: the addon, the daemon, the launchd agent, Metal',
  },
};

/** Stores the sizes of a package, as check-package.js returns them. */
export async function writeSizes({ platform, packed, unpacked, versions }) {
  await store(platform, { packed, unpacked, versions });
}

/** Stores the programs that passed: `[{ name, seconds }]`, and the seconds of all of them with what is between. */
export async function writeRun(platform, results, total) {
  const programs = results.map(({ name, seconds }) => ({ name, seconds: Math.round(seconds) }));
  await store(platform, { programs, seconds: Math.round(Number(total)) });
}

/** Stores the names of the files that were compiled and linked elsewhere, and checked. */
export async function writeCompiled(platform, files) {
  await store(platform, { compiled: files });
}

/** Stores the tests of the installed packages by version of Node: `[{ version, passed }]`. */
export async function writeNodes(results) {
  await store('linux-x64', { nodes: Object.fromEntries(results.map(({ version, passed }) => [version, passed])) });
}

async function store(platform, facts) {
  const tested = await readJson(TESTED);
  tested[platform] = { ...tested[platform], ...facts };
  await writeJson(inRoot(TESTED), tested);
  await writeFile(inRoot(PAGE), await platformsPage());
}

/** Returns the text of docs/platforms.md. */
export async function platformsPage() {
  const tested = await readJson(TESTED);
  const rows = Object.keys(platforms).map((platform) => rowOf(platform, tested[platform] ?? {}));
  const text = [
    '# Platforms',
    '',
    'Written by `node scripts/packages.js --page`, `node scripts/qemu.js --page`, `node scripts/wine.js --page`,',
    '`node scripts/darwin.js --page` and `node scripts/nodes.js --page`.',
    '`svc-runtime` is the same everywhere and has its dependencies in it. npm, pnpm or yarn installs one more package, with',
    'the engine, its libraries and the built-in model.',
    '',
    '| platform | how it is built | how it was run | packed, unpacked | needs | never run |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
    ...ranElsewhere(
      'Linux arm64 under qemu',
      'qemu',
      'Part of `.ci/run` at one commit of four.',
      tested['linux-arm64'],
    ),
    ...ranElsewhere('Windows x64 under Wine', 'wine', NOT_IN_CI, tested['win32-x64']),
    ...compiledForMac(tested['darwin-arm64'] ?? {}),
    ...versionsOfNode(tested['linux-x64']?.nodes),
    '## If the package for the platform is missing',
    '',
    'npm skips optional dependencies with `--omit=optional`, and installs for the machine that it runs on: a folder that is',
    'copied to another platform does not work there. `svc version`, `svc doctor`, `svc start` and `svc run` then name the',
    'package and the command:',
    '',
    '```',
    'svc: the package svc-runtime-linux-x64, with the engine and the built-in model, is not installed',
    'hint: run: npm install --global --include=optional svc-runtime@0.1.0',
    '```',
    '',
    'To install for another platform, name it: `npm install --os=linux --cpu=arm64 --libc=glibc svc-runtime`. pnpm has the',
    'setting `supportedArchitectures`. There is no package for musl (Alpine): its C library lacks symbols that libllama needs.',
    '',
  ].join('\n');
  return await format(text, { ...(await resolveConfig(inRoot(PAGE))), parser: 'markdown' });
}

function rowOf(platform, { packed, unpacked, versions = {}, programs }) {
  const { built, run, not } = TEXT[platform];
  const sizes = packed === undefined ? '–' : `${(packed / MB).toFixed(1)} MB, ${(unpacked / MB).toFixed(0)} MB`;
  const { GLIBC, GLIBCXX } = versions;
  const { macos } = platforms[platform];
  const needs =
    GLIBC !== undefined ? `glibc ${GLIBC}, libstdc++ with GLIBCXX_${GLIBCXX}` : macos ? `macOS ${macos}` : '–';
  const count = programs === undefined ? '' : `: ${programs.length} of ${programs.length} passed`;
  return `| \`${packageName(platform)}\` | ${built} | ${run}${count} | ${sizes} | ${needs} | ${not} |`;
}

const NOT_IN_CI = 'Not part of `.ci/run`: libllama alone compiles for ten minutes.';

/** `where`: whether the script is part of continuous integration. */
function ranElsewhere(title, script, where, { programs, seconds } = {}) {
  if (programs === undefined) return [];
  const list = programs.map(({ name, seconds: took }) => `\`${name}\` ${took} s`).join(', ');
  return [
    `## ${title}`,
    '',
    `\`node scripts/${script}.js\` took ${seconds} s after the build: ${list}. The tests are those of the engine in C++;`,
    `the commands run with Node for that platform, daemon and engine process included. ${where}`,
    '',
  ];
}

function compiledForMac({ compiled }) {
  const { macos } = platforms['darwin-arm64'];
  const list = (compiled ?? []).map((name) => `\`${name}\``).join(', ');
  return [
    '## macOS arm64 without a Mac',
    '',
    'No part of svc ever ran on macOS. What was checked on Linux:',
    '',
    ...(compiled === undefined
      ? []
      : [
          `- \`node scripts/darwin.js\` compiles and links the engine, both addons, libllama and ggml with zig, for macOS ${macos}.`,
          `  The ${compiled.length} files pass the check of the package: ${list}. Without Metal and Accelerate, which need Apple's SDK;`,
          '  nothing is shipped, because zig gives each library a C++ library of its own.',
        ]),
    '- `scripts/check-packages.js` checks the package, wherever it was built: the libraries and run paths of each file, its',
    "  symbols against those that the package's libraries export and that Node offers, the oldest macOS that it needs, its",
    "  code signature, and Metal's kernels in `libggml-metal`.",
    '- The launchd agent: its text is read as a property list, and the commands run against a stand-in for `launchctl`.',
    '',
  ];
}

function versionsOfNode(nodes) {
  if (nodes === undefined) return [];
  const list = Object.entries(nodes).map(([version, passed]) => `${version} (${passed} tests passed)`);
  return [
    '## Versions of Node',
    '',
    'The packages for Linux x64, installed by npm and tested by `test/packed/packed.test.ts` (`node scripts/nodes.js`; not',
    `part of \`.ci/run\`, which has one version): ${list.join(', ')}.`,
    '',
  ];
}
