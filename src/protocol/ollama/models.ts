/** Converts records of models to Ollama's lists, and reads the requests that change the store. */
import * as v from 'valibot';
import { given } from '../given.ts';
import { DAY_MS, LIMITS } from '../limits.ts';
import type { ListedModel } from '../model/listed.ts';
import type { LoadedModel, ModelRecord } from '../records.ts';
import { invalid, parse } from '../validate.ts';
import { nameSchema, withoutLatest, withTag } from './names.ts';
import { fieldsOf } from './request.ts';

/**
 * Version of Ollama whose API this is: clients compare it before they use a feature. No client is known to require a
 * later one, which would promise features that svc lacks.
 */
const OLLAMA_VERSION = '0.14.2';

/** `version`: version of svc. */
export function toVersion(version: string | null): object {
  return { version: OLLAMA_VERSION, svc_version: version };
}

/** `GET /api/tags`. */
export function toTags(models: readonly ListedModel[]): object {
  return {
    models: models.map((model) => {
      const { id, created_at, record } = model;
      const head = record === null ? { ...namesOf(id), size: 0, digest: '' } : headOf(record);
      return {
        ...head,
        modified_at: created_at,
        details: detailsOf(model),
        ...given({ remote_model: remoteModelOf(model) }),
      };
    }),
  };
}

/** `GET /api/ps`. Names that share an engine are one model. `now`: as Date.now(). */
export function toRunning(records: readonly ModelRecord[], now: number): object {
  const seen = new Set<number>();
  const models = records.flatMap((record) => {
    const { loaded } = record;
    if (loaded === null || seen.has(loaded.pid)) return [];
    seen.add(loaded.pid);
    const size = loaded.memory_bytes ?? record.size_bytes;
    return [
      {
        ...headOf(record),
        details: detailsOf({ record }),
        size,
        expires_at: loaded.expires_at ?? new Date(now + FOREVER_MS).toISOString(),
        size_vram: bytesOnDevices(loaded),
        context_length: loaded.context_length,
      },
    ];
  });
  return { models };
}

function bytesOnDevices({ placement }: LoadedModel): number {
  const [, ...devices] = placement?.devices ?? [];
  return devices.reduce((sum, { memory_bytes }) => sum + memory_bytes, 0);
}

/** Ollama's own "forever": 292 years, the longest duration of Go. */
const FOREVER_MS = 292 * 365.25 * DAY_MS;

function namesOf(id: string) {
  const name = withTag(id);
  return { name, model: name };
}

function headOf({ id, size_bytes, digest }: ModelRecord) {
  return { ...namesOf(id), size: size_bytes, digest: digest?.replace(/^sha256:/, '') ?? '' };
}

/** The provider's name of its model, by which clients recognise models that run elsewhere. undefined: it is local. */
export function remoteModelOf({ id, kind, owner }: ListedModel): string | undefined {
  return kind === 'provider' ? id.slice(owner.length + 1) : undefined;
}

/** Without a file here nothing is known. */
const NO_DETAILS = { from: '', format: '', architecture: null, parameters: null, quantization: null };

export function detailsOf({ record }: Pick<ListedModel, 'record'>): object {
  const { from = '', format, architecture, parameters, quantization } = record ?? NO_DETAILS;
  return {
    parent_model: from,
    format,
    family: architecture ?? '',
    families: architecture === null ? [] : [architecture],
    parameter_size: parameters === null ? '' : shortCount(parameters),
    quantization_level: quantization ?? '',
  };
}

/** `494.03M`, `7.6B`, as Ollama. */
function shortCount(parameters: number): string {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(1)}B`;
  if (parameters >= 1e6) return `${(parameters / 1e6).toFixed(2)}M`;
  return parameters >= 1e3 ? `${(parameters / 1e3).toFixed(2)}K` : String(parameters);
}

export const NamedModelSchema = v.object({ model: nameSchema });

/** Returns the name of a request that has nothing else. Throws INVALID_REQUEST with `param`. */
export function parseModelName(body: unknown): string {
  return parse(NamedModelSchema, fieldsOf(body)).model;
}

export const CopySchema = v.object({ source: nameSchema, destination: nameSchema });

/** The destination comes without `:latest`. Throws INVALID_REQUEST with `param`. */
export function parseCopy(body: unknown): v.InferOutput<typeof CopySchema> {
  const { source, destination } = parse(CopySchema, fieldsOf(body));
  return { source, destination: withoutLatest(destination) };
}

/** A stop string, or a number as text. */
const parameter = v.pipe(v.string(), v.maxLength(LIMITS.stopStringBytes));

export const CreateSchema = v.object({
  model: nameSchema,
  from: nameSchema,
  system: v.exactOptional(v.string(), ''),
  /** As `PARAMETER` in a Modelfile. */
  parameters: v.exactOptional(
    v.record(
      v.string(),
      v.union([parameter, v.number(), v.boolean(), v.pipe(v.array(parameter), v.maxLength(LIMITS.stopStrings))]),
    ),
    {},
  ),
  stream: v.exactOptional(v.boolean(), true),
});
export type CreateRequest = v.InferOutput<typeof CreateSchema>;

/** Fields that are refused, and why. */
const REFUSED: Readonly<Record<string, string>> = {
  modelfile: 'send from, system and parameters',
  template: 'svc uses the chat template of the model file',
  messages: 'a name has no example messages: send them with the request',
  adapters: 'add them on the machine: svc model create',
  files: 'register a file on the machine: svc model add',
  quantize: 'quantise on the machine: svc model quantize',
};

/**
 * The name comes without `:latest`. A licence is ignored: that of the file holds. Throws INVALID_REQUEST with `param`.
 */
export function parseCreate(body: unknown): CreateRequest {
  const fields = fieldsOf(body);
  for (const [name, why] of Object.entries(REFUSED)) {
    if (fields[name] !== undefined && !isNothing(fields[name])) throw invalid(name, `is not supported: ${why}`);
  }
  const request = parse(CreateSchema, fields);
  return { ...request, model: withoutLatest(request.model) };
}

function isNothing(value: unknown): boolean {
  return value === '' || (typeof value === 'object' && value !== null && Object.keys(value).length === 0);
}
