/** A TypeScript application that uses the package, and the compiler that checks it. */
import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Each line marked as an error has to be one: the types refuse what the daemon would. */
const PROGRAM = `
import { Client, SvcError, type AnswerEvent, type ErrorCode, type Message } from 'svc-runtime';

const local = new Client();
const remote = new Client({ baseUrl: 'http://127.0.0.1:7117', apiKey: 'svc_x' });
// @ts-expect-error: a key goes over HTTP only
new Client({ apiKey: 'svc_x' });
// @ts-expect-error: one or the other
new Client({ baseUrl: 'http://127.0.0.1:7117', socketPath: '/svc.sock' });

const history = [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }] as const satisfies readonly Message[];

export async function main(signal: AbortSignal): Promise<ErrorCode | undefined> {
  let text = '';
  try {
    for await (const event of local.generate({ model: 'tiny', prompt: 'Hello', sampling: { seed: 1 } }, { signal })) {
      const each: AnswerEvent = event;
      if (event.type === 'text') text += event.text;
      else if (event.type === 'tool_call') text += event.arguments;
      else if (event.type === 'finish') text += String(event.usage?.output_tokens ?? 0);
      // @ts-expect-error: only some events have a text
      text += each.text;
    }
    const whole = await remote.chat({ messages: history, tools: [{ name: 'now' }] }).result();
    const reason: 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'cancelled' = whole.finish_reason;
    const { tool_calls = [] } = whole;
    await remote.chat({ messages: [...history, { role: 'assistant', content: whole.text, tool_calls }] }).result();
    const { embeddings } = await remote.embed({ input: ['a', [1, 2]] });
    const first: Float32Array | undefined = embeddings[0];
    const { results } = await remote.rerank({ query: 'a', documents: ['b'], top_n: 1 });
    const score: number | undefined = results[0]?.score;
    const ids: string[] = (await local.models()).map(({ id }) => id);
    const state: 'ready' | 'not_ready' = (await local.health()).status;
    console.log(text, reason, first, score, ids, state);
  } catch (error) {
    if (error instanceof SvcError) return error.code;
    throw error;
  }
  // @ts-expect-error: a prompt or messages
  local.generate({ model: 'tiny' });
  // @ts-expect-error: not both
  local.generate({ prompt: 'a', messages: history });
  // @ts-expect-error: no such field
  local.generate({ prompt: 'a', temperature: 1 });
  // @ts-expect-error: no such role
  local.chat({ messages: [{ role: 'robot', content: 'a' }] });
  return undefined;
}
`;

/** What applications set in common; the rest, each on its own, may not break our types. */
const VARIANTS: readonly Readonly<Record<string, unknown>>[] = [
  { module: 'nodenext' },
  { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom'], exactOptionalPropertyTypes: true },
];

/**
 * Compiles the application and the other `programs` in `folder`, with the package at `installed`. Returns the
 * compiler's complaints.
 */
export async function compileApplication(
  folder: string,
  installed: string,
  programs: readonly string[],
): Promise<readonly string[]> {
  const modules = join(folder, 'node_modules');
  await mkdir(join(modules, '@types'), { recursive: true });
  await symlink(installed, join(modules, 'svc-runtime'));
  await symlink(join(ROOT, 'node_modules', '@types', 'node'), join(modules, '@types', 'node'));
  await writeFile(join(folder, 'package.json'), '{"type": "module"}');
  const files = [PROGRAM, ...programs].map((_, index) => `app-${String(index)}.ts`);
  await Promise.all([PROGRAM, ...programs].map((text, index) => writeFile(join(folder, files[index] ?? ''), text)));
  const complaints: string[] = [];
  for (const variant of VARIANTS) {
    const compilerOptions = { strict: true, skipLibCheck: false, noEmit: true, target: 'es2022', types: ['node'] };
    const config = { compilerOptions: { lib: ['es2022'], ...compilerOptions, ...variant }, files };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config));
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    await promisify(execFile)(process.execPath, [tsc, '-p', folder]).catch((error: unknown) => {
      complaints.push((error as { stdout: string }).stdout || String(error));
    });
  }
  return complaints;
}
