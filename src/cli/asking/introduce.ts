/** Introduces the built-in model once, on standard error, after its first answer. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Paths } from '../../home/paths.ts';
import { makeDirectorySync } from '../../files/make-directory.ts';
import { BUILTIN_ID } from '../../protocol/model/named.ts';
import type { GenerateResult } from '../../protocol/generate.ts';
import { say } from '../terminal/output.ts';

/** A file in the state directory records it; if the file cannot be written, the message appears again. */
export function introduceBuiltin({ provider, model }: GenerateResult, { stateDir }: Paths): void {
  if (provider !== 'local' || model !== BUILTIN_ID) return;
  try {
    makeDirectorySync(stateDir);
    writeFileSync(join(stateDir, 'builtin-introduced'), '', { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
  }
  say(
    "this was svc's built-in model: it is small and knows little but svc; for a larger one: svc model pull NAME, then svc model default NAME",
  );
}
