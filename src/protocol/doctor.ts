/** The output of `svc doctor --json` and the names of its checks, which docs/doctor.md describes. */
import * as v from 'valibot';

/** In output order. Each compute device found adds one `device NAME` check. */
export const CHECK_NAMES = [
  'node',
  'user',
  'addon',
  'gpu',
  'cpu_features',
  'sandbox',
  'memory',
  'paths',
  'disk',
  'config',
  'http',
  'grpc',
  'control_socket',
  'daemon',
  'log',
  'clock',
  'model_store',
  'default_model',
  'providers',
  'api_keys',
] as const;
export type CheckName = (typeof CHECK_NAMES)[number] | `device ${string}`;

const nullableText = v.nullable(v.pipe(v.string(), v.minLength(1)));

export const DoctorCheckSchema = v.strictObject({
  name: v.union([v.picklist(CHECK_NAMES), v.custom<`device ${string}`>((name) => /^device \S/.test(String(name)))]),
  /** `warn`: works, but deserves attention. `skip`: nothing to check, or a check that it depends on failed. */
  status: v.picklist(['ok', 'warn', 'fail', 'skip']),
  value: nullableText,
  detail: nullableText,
  /** What to do; always present with `warn` and `fail`. */
  hint: nullableText,
});

export const DoctorRecordSchema = v.strictObject({
  /** True if no check failed. */
  ok: v.boolean(),
  checks: v.array(DoctorCheckSchema),
});

export type DoctorCheck = Readonly<v.InferOutput<typeof DoctorCheckSchema>>;

export interface DoctorRecord {
  readonly ok: boolean;
  readonly checks: readonly DoctorCheck[];
}
