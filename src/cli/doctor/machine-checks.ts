/** This process and this machine. */
import { totalmem } from 'node:os';
import { existsSync, readFileSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { CheckStatus, DoctorCheck } from '../../protocol/records.ts';
import { bytes } from '../format.ts';
import { check } from './check.ts';

const GIB = 1024 ** 3;
const DISK = { warn: GIB, fail: GIB / 16 };
const MEMORY = { warn: GIB / 2, fail: GIB / 10 };

export function checkNode(): DoctorCheck {
  const { node } = process.versions;
  const least = leastNode();
  const value = `${node} on ${process.platform}-${process.arch}`;
  return isAtLeast(node, least)
    ? check('node', 'ok', value)
    : check('node', 'fail', value, { detail: `svc needs Node ${least}`, hint: `install Node ${least} or newer` });
}

export function checkMemory(): DoctorCheck {
  const available = process.availableMemory();
  return check('memory', judge(available, MEMORY), `${bytes(available)} available of ${bytes(totalmem())}`, {
    hint: available < MEMORY.warn ? 'close other programs, or use a smaller model' : null,
  });
}

/** Where the models lie, or will. */
export function checkDisk(modelsDir: string): DoctorCheck {
  const { bavail, bsize } = statfsSync(existingAncestor(modelsDir));
  const free = bavail * bsize;
  return check('disk', judge(free, DISK), `${bytes(free)} free for ${modelsDir}`, {
    hint: free < DISK.warn ? 'make room, or set models.dir in the config to another disk' : null,
  });
}

function judge(value: number, bound: { readonly warn: number; readonly fail: number }): CheckStatus {
  return value < bound.fail ? 'fail' : value < bound.warn ? 'warn' : 'ok';
}

function existingAncestor(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : existingAncestor(dirname(path));
}

/** `engines.node` of package.json: `>=20.18.1`. */
function leastNode(): string {
  const manifest = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    engines: { node: string };
  };
  return manifest.engines.node.replace(/^>=/, '');
}

function isAtLeast(version: string, least: string): boolean {
  const [a, b] = [version, least].map((each) => each.split('.').map(Number)) as [number[], number[]];
  const differing = b.findIndex((part, index) => part !== a[index]);
  return differing === -1 || (a[differing] ?? 0) > (b[differing] ?? 0);
}
