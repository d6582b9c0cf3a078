/** The output of `svc doctor --json` and the names of its checks, which docs/doctor.md describes. */

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

export interface DoctorCheck {
  readonly name: CheckName;
  /** `warn`: works, but deserves attention. `skip`: nothing to check, or a check that it depends on failed. */
  readonly status: 'ok' | 'warn' | 'fail' | 'skip';
  readonly value: string | null;
  readonly detail: string | null;
  /** What to do; always present with `warn` and `fail`. */
  readonly hint: string | null;
}

export interface DoctorRecord {
  /** True if no check failed. */
  readonly ok: boolean;
  readonly checks: readonly DoctorCheck[];
  readonly advice: DoctorAdvice;
}

export interface DoctorAdvice {
  /** What to do first: the fix of a failed check, a command that installs a model, or the fix of a warning. */
  readonly first: string | null;
  /** True if no model but the built-in one is installed. */
  readonly only_builtin: boolean;
  /** Models of the catalogue that would run well on this machine, the best first. */
  readonly models: readonly SuggestedModel[];
}

export interface SuggestedModel {
  readonly name: string;
  readonly command: string;
  readonly estimated_bytes: number;
  /** From the measured matrix product; null: not measured. */
  readonly estimated_tokens_per_second: number | null;
  readonly good_at: string;
}
