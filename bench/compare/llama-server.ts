/**
 * llama-server of the bundled llama.cpp as a reference, with one of our models.
 *
 * The server is built for this CPU; the addon's libraries are built for many CPUs and pick a variant at start. The
 * two round differently. To compare engines, not compilers, the server runs with the addon's shared libraries, which
 * have the same source and ABI; a folder of links gives them the names that the server expects.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { llamaSource } from '../../scripts/llama-source.js';
import type { Answer, Question, Sampling } from './cases.ts';

const START_TIMEOUT_MS = 60_000;
/** Libraries of the server itself; all others come from the addon's folder. */
const OWN_LIBRARIES = ['libllama-server-impl.so', 'libmtmd.so.0'];

export interface ServerOptions {
  readonly model: string;
  readonly threads: number;
  readonly contextLength: number;
  /** Folder of libllama and ggml; null for those that the server was built with. */
  readonly libraries: string | null;
  /** True to compute embeddings instead of text. */
  readonly embeddings?: boolean;
  /** True to score documents. */
  readonly reranking?: boolean;
}

/**
 * Builds llama-server and llama-quantize unless they exist (ten minutes on two cores). Resolves with the path of the
 * server.
 */
export async function buildLlamaServer(root: string): Promise<string> {
  const folder = join(root, 'build', 'llama-server');
  const program = join(folder, 'bin', 'llama-server');
  if (existsSync(program) && existsSync(join(folder, 'bin', 'llama-quantize'))) return program;
  const without = ['BUILD_TESTS', 'BUILD_EXAMPLES', 'BUILD_UI', 'OPENSSL', 'CURL'].map((name) => `-DLLAMA_${name}=OFF`);
  await run('cmake', [
    '-S',
    await llamaSource(),
    '-B',
    folder,
    '-DCMAKE_BUILD_TYPE=Release',
    '-DGGML_OPENMP=OFF',
    ...without,
    ...(await instructionSets()),
  ]);
  await run('cmake', ['--build', folder, '--target', 'llama-server', 'llama-quantize', '--parallel', '2']);
  return program;
}

/** ggml's AMX products, compiled by GCC 12 for this very processor, end the server with SIGILL: they are left out. */
async function instructionSets(): Promise<string[]> {
  const flags = await readFile('/proc/cpuinfo', 'utf8');
  if (!/\bamx_tile\b/.test(flags)) return [];
  const names = ['SSE42', 'AVX', 'AVX2', 'BMI2', 'F16C', 'FMA', 'AVX512', 'AVX512_VBMI', 'AVX512_VNNI', 'AVX512_BF16'];
  return ['-DGGML_NATIVE=OFF', ...names.map((name) => `-DGGML_${name}=ON`)];
}

export class LlamaServer {
  readonly #child: ChildProcess;
  readonly #url: string;
  readonly #staged: string | null;

  private constructor(child: ChildProcess, url: string, staged: string | null) {
    this.#child = child;
    this.#url = url;
    this.#staged = staged;
  }

  static async start(
    program: string,
    { model, threads, contextLength, libraries, embeddings = false, reranking = false }: ServerOptions,
  ): Promise<LlamaServer> {
    const staged = libraries === null ? null : await stage(program, libraries);
    const port = await freePort();
    const child = spawn(
      staged === null ? program : join(staged, basename(program)),
      ['-m', model, '--host', '127.0.0.1', '--port', String(port), '-c', String(contextLength), '-np', '1'].concat([
        '-t',
        String(threads),
        '-tb',
        String(threads),
        '--no-warmup',
        '--cache-ram',
        '0',
        '--log-disable',
        // An input must fit into one batch.
        ...(embeddings || reranking
          ? [reranking ? '--reranking' : '--embeddings', '-b', String(contextLength), '-ub', String(contextLength)]
          : []),
      ]),
      { stdio: 'ignore', env: { ...process.env, ...(staged === null ? {} : { LD_LIBRARY_PATH: staged }) } },
    );
    const server = new LlamaServer(child, `http://127.0.0.1:${port}`, staged);
    try {
      await server.#answering();
      return server;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  /** llama-server has our names of the sampling settings. */
  async ask(question: Question, { sampling, stop, grammar }: Sampling, maxTokens: number): Promise<Answer> {
    const options = { ...sampling, stop, grammar, cache_prompt: false };
    if ('prompt' in question) {
      const body = await this.#post('/completion', { prompt: question.prompt, n_predict: maxTokens, ...options });
      return {
        text: body.content,
        finish: body.stop_type === 'limit' ? 'length' : 'stop',
        inputTokens: body.tokens_evaluated,
        outputTokens: body.tokens_predicted,
      };
    }
    const body = await this.#post('/v1/chat/completions', { ...question, max_tokens: maxTokens, ...options });
    return {
      text: body.choices[0].message.content,
      finish: body.choices[0].finish_reason,
      inputTokens: body.usage.prompt_tokens,
      outputTokens: body.usage.completion_tokens,
    };
  }

  async embed(input: readonly string[]): Promise<{ vectors: number[][]; tokens: number }> {
    const { data, usage } = await this.#post('/v1/embeddings', { input });
    return { vectors: data.map(({ embedding }: any) => embedding), tokens: usage.prompt_tokens };
  }

  /** Scores in the order of the documents. */
  async rerank(query: string, documents: readonly string[]): Promise<{ scores: number[]; tokens: number }> {
    const { results, usage } = await this.#post('/v1/rerank', { query, documents });
    const scores = new Array<number>(documents.length).fill(NaN);
    for (const { index, relevance_score } of results) scores[index] = relevance_score;
    return { scores, tokens: usage.prompt_tokens };
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = new Promise((resolve) => this.#child.once('exit', resolve));
      this.#child.kill('SIGKILL');
      await ended;
    }
    if (this.#staged !== null) await rm(this.#staged, { recursive: true });
  }

  async #answering(): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (performance.now() < deadline) {
      if (this.#child.exitCode !== null) throw new Error(`llama-server ended with ${this.#child.exitCode}`);
      const response = await fetch(`${this.#url}/health`).catch(() => undefined);
      if (response?.ok === true) return;
      await sleep(100);
    }
    throw new Error('llama-server does not answer');
  }

  async #post(path: string, body: object): Promise<any> {
    const response = await fetch(this.#url + path, { method: 'POST', body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`llama-server: ${response.status} ${await response.text()}`);
    return await response.json();
  }
}

/** Creates a folder with the server and links to `libraries` under the names that it was linked with. */
async function stage(program: string, libraries: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-llama-server-'));
  await copyFile(program, join(folder, basename(program)));
  for (const name of OWN_LIBRARIES) await symlink(join(program, '..', name), join(folder, name));
  const names = (await readdir(libraries)).filter((name) => name.includes('.so'));
  for (const name of names) await symlink(join(libraries, name), join(folder, name));
  for (const wanted of ['libllama', 'libggml', 'libggml-base', 'libllama-common']) {
    const name = names.find((each) => each.startsWith(`${wanted}.`));
    if (name === undefined) throw new Error(`no ${wanted} in ${libraries}`);
    if (name !== `${wanted}.so.0`) await symlink(join(libraries, name), join(folder, `${wanted}.so.0`));
  }
  return folder;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

export async function run(command: string, args: readonly string[]): Promise<void> {
  const child = spawn(command, args, { stdio: 'inherit' });
  const code = await new Promise((resolve, reject) => child.once('error', reject).once('exit', resolve));
  if (code !== 0) throw new Error(`${command} ended with ${String(code)}`);
}
