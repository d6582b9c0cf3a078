/** The built-in model is small. Whoever gets its first answer is told so once, on standard error. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Paths } from '../config/paths.ts';
import { makeDirectorySync } from '../files/make-directory.ts';
import { BUILTIN_ID } from '../models/builtin.ts';
import type { GenerateResult } from '../protocol/generate.ts';
import { say } from './output.ts';

/** A file in the state directory remembers it; where none can be written, it is said again. */
export function introduceBuiltin({ provider, model }: GenerateResult, { stateDir }: Paths): void {
  if (provider !== 'local' || model !== BUILTIN_ID) return;
  try {
    makeDirectorySync(stateDir);
    writeFileSync(join(stateDir, 'builtin-introduced'), '', { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
  }
  say(
    "that was svc's built-in model: small, it knows svc and little else; a larger one: svc model add FILE.gguf, then svc model default ID",
  );
}
