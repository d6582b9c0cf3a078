import { ControlClient } from '../../client/control-client.ts';
import { resolvePaths } from '../../home/paths.ts';
import { VERSION } from '../../config/version.ts';
import { probeEngine } from '../../engine/probe.ts';
import { ownText } from '../../process/own-files.ts';
import type { VersionRecord } from '../../protocol/records.ts';
import { orElse } from '../../protocol/foreign-text.ts';
import { sayIfOther } from '../machine/other-version.ts';
import { jsonFlag, type Run, type Spec } from '../spec.ts';
import { text } from '../terminal/format.ts';
import { out } from '../terminal/output.ts';
import { facts } from '../terminal/layout.ts';
import { printResult } from '../terminal/result.ts';

export const spec = {
  summary: 'Show the versions of svc, Node, the engine and the running daemon',
  flags: { json: jsonFlag },
  examples: ['svc version', 'svc version --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json }) => {
  const record = await versionRecord();
  printResult(json, record, describe(record));
  if (record.daemon !== null) sayIfOther(record.daemon);
};

async function versionRecord(): Promise<VersionRecord> {
  const [{ addon, devices, error }, daemon] = await Promise.all([probeEngine({ measure: false }), runningDaemon()]);
  return {
    version: VERSION,
    daemon,
    commit: commit(),
    node: process.versions.node,
    platform: process.platform,
    arch: process.arch,
    addon: {
      path: addon?.path ?? null,
      built_for: addon?.builtFor ?? null,
      llama_cpp: addon?.llamaCpp ?? null,
      backends: [...new Set(devices.map((device) => device.backend))],
      error: error?.message ?? null,
      hint: error?.hint ?? null,
    },
  };
}

/** Returns null if none answers: then there is nothing to compare. */
async function runningDaemon(): Promise<VersionRecord['daemon']> {
  try {
    const { pid, version, installed_version } = await new ControlClient(resolvePaths().socketPath).status();
    return { pid, version, installed_version };
  } catch {
    return null;
  }
}

/** Returns the commit that dist/ was built from, which scripts/steps/dist.js wrote; null if svc runs from source. */
function commit(): string | null {
  return orElse(() => ownText('dist/commit'), null);
}

function describe({ version, commit: revision, node, platform, arch, addon, daemon }: VersionRecord): string {
  const rows: [string, string][] = [
    ['svc', revision === null ? version : `${version} (${revision.slice(0, 12)})`],
    ['node', `${node} (${platform}-${arch})`],
    ['addon', text(addon.path)],
  ];
  if (addon.path !== null) {
    rows.push(
      ['built for', text(addon.built_for)],
      ['llama.cpp', text(addon.llama_cpp)],
      ['backends', addon.backends.join(', ') || '-'],
    );
  }
  if (daemon !== null) rows.push(['daemon', `${text(daemon.version)} (pid ${String(daemon.pid)})`]);
  if (addon.error !== null) rows.push(['error', addon.error]);
  if (addon.hint !== null) rows.push(['hint', addon.hint]);
  return facts(rows, out.tableColumns);
}
