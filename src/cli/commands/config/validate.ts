import { environmentSettings, parseConfig, readConfigFile, type ConfigProblem } from '../../../config/config.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { existsSync } from 'node:fs';
import { ERRORS, SvcError } from '../../../protocol/errors.ts';
import { jsonFlag, type Run, type Spec } from '../../spec.ts';
import { out } from '../../terminal/output.ts';
import { printResult } from '../../terminal/result.ts';

/** Problems in the environment have no line or column. */
type Problem =
  ConfigProblem | (Omit<ConfigProblem, 'line' | 'column'> & { readonly line: null; readonly column: null });

export const spec = {
  summary: 'Check the config file and the environment',
  flags: { json: jsonFlag },
  examples: ['svc config validate', 'SVC_CONFIG=/tmp/new.json svc config validate', 'svc config validate --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = ({ json }) => {
  const { configFile: file } = resolvePaths();
  const problems: Problem[] = [...parseConfig(readConfigFile(file)).problems, ...problemsOfEnvironment()];
  const valid = problems.length === 0;
  const praise = existsSync(file) ? `${file} is valid` : `${file} does not exist: the defaults apply`;
  const text = valid ? praise : problems.map((problem) => describe(file, problem)).join('\n');
  printResult(json, { valid, file, problems }, text);
  return valid ? 0 : ERRORS.CONFIG_INVALID.exit;
};

function problemsOfEnvironment(): Problem[] {
  try {
    environmentSettings();
    return [];
  } catch (error) {
    return [{ line: null, column: null, message: SvcError.from(error).message }];
  }
}

/** Formats a problem as compilers do, so that editors can jump to it. */
function describe(file: string, { line, column, likely, message }: Problem): string {
  const text = out.red(likely === undefined ? message : `${message}; did you mean "${likely}"?`);
  return line === null ? text : `${file}:${String(line)}:${String(column)}: ${text}`;
}
