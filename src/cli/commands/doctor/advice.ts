/** What to do first after the checks: fix what is broken, or install a model that runs well on this machine. */
import { catalogue, estimatedBytes, type CatalogueEntry } from '../../../models/pull/catalogue.ts';
import { lackOfRoom, type Room } from '../../../models/pull/fits.ts';
import { BUILTIN_ID } from '../../../protocol/model/named.ts';
import type { DoctorAdvice, DoctorCheck, SuggestedModel } from '../../../protocol/doctor.ts';
import type { ModelRecord } from '../../../protocol/records.ts';

/** What the checks have measured; null: not known. */
export interface Machine extends Room {
  readonly gflops: number | null;
}

/** Below it, reading along takes patience. */
const LEAST_TOKENS_PER_SECOND = 4;

/** Families for conversation of any kind; the others are older, or for one purpose. */
const GENERAL = /^(qwen3|gemma3|llama3|smollm|granite|phi4|mistral)/;

/** `models`: the installed ones; null: the store cannot be read. */
export function adviceFrom(
  checks: readonly DoctorCheck[],
  models: readonly ModelRecord[] | null,
  machine: Machine,
): DoctorAdvice {
  const onlyBuiltin = models?.every(({ id }) => id === BUILTIN_ID) ?? false;
  const suggested = suggestedFor(machine);
  const hintOf = (status: DoctorCheck['status']): string | undefined => {
    const hinting = checks.filter((each) => each.status === status && each.hint !== null);
    // The daemon reports what other checks find; their hints say how to fix it.
    const found = hinting.find(({ name }) => name !== 'daemon') ?? hinting[0];
    return found === undefined ? undefined : `${found.name}: ${found.hint ?? ''}`;
  };
  const install = onlyBuiltin ? suggested[0]?.command : undefined;
  return {
    first: hintOf('fail') ?? install ?? hintOf('warn') ?? null,
    only_builtin: onlyBuiltin,
    models: suggested,
  };
}

/**
 * Models of the catalogue that fit in memory and on the disk, and are fast enough: the largest, one for code, a fast
 * one.
 */
export function suggestedFor(machine: Machine): SuggestedModel[] {
  const fitting = catalogue()
    .models.filter((entry) => fits(entry, machine))
    .sort((a, b) => b.parameters_billions - a.parameters_billions);
  const isCode = ({ name }: CatalogueEntry): boolean => name.includes('coder');
  const isGeneral = ({ name }: CatalogueEntry): boolean => GENERAL.test(name);
  const [best] = fitting.filter(isGeneral);
  const [code] = fitting.filter(isCode);
  const most = (best?.parameters_billions ?? 0) / 2.5;
  const [fast] = fitting.filter((entry) => isGeneral(entry) && entry.parameters_billions <= most);
  return [best, code, fast].flatMap((entry) => (entry === undefined ? [] : [shown(entry, machine)]));
}

function fits(entry: CatalogueEntry, machine: Machine): boolean {
  const speed = speedOf(entry, machine);
  return lackOfRoom(sizeOf(entry), machine) === undefined && (speed === null || speed >= LEAST_TOKENS_PER_SECOND);
}

function shown(entry: CatalogueEntry, machine: Machine): SuggestedModel {
  const { name, good_at } = entry;
  const speed = speedOf(entry, machine);
  return {
    name,
    command: `svc pull ${name}`,
    estimated_bytes: Math.round(sizeOf(entry)),
    estimated_tokens_per_second: speed === null ? null : Math.round(speed),
    good_at,
  };
}

/** Two operations for each parameter and token, at the speed of the measured matrix product. */
function speedOf({ parameters_billions }: CatalogueEntry, { gflops }: Machine): number | null {
  return gflops === null ? null : gflops / (2 * parameters_billions);
}

function sizeOf(entry: CatalogueEntry): number {
  return estimatedBytes(entry, entry.default_quantization);
}
