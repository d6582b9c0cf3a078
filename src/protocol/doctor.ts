/** `svc doctor --json`: what it prints, and the names that its checks have. docs/doctor.md tells of each. */
import * as v from 'valibot';

/** In the order of the answer. Beside them stands one `device NAME` for each compute device that was found. */
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
  /** `warn`: works, but worth a look. `skip`: there was nothing to look at, or what it needs is broken itself. */
  status: v.picklist(['ok', 'warn', 'fail', 'skip']),
  value: nullableText,
  detail: nullableText,
  /** What to do; always there with `warn` and `fail`. */
  hint: nullableText,
});

export const DoctorRecordSchema = v.strictObject({
  /** No check has failed. */
  ok: v.boolean(),
  checks: v.array(DoctorCheckSchema),
});

export type DoctorCheck = Readonly<v.InferOutput<typeof DoctorCheckSchema>>;

export interface DoctorRecord {
  readonly ok: boolean;
  readonly checks: readonly DoctorCheck[];
}
