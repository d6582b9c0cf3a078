/**
 * Proves a GPU backend: a child process with it and one without it ask the built-in model the same questions, and the
 * answers must be equal. The model chooses each token of these answers with a wide margin
 * (test/engine/gpu-proof.test.ts), so a difference is an error of the GPU, its driver or the backend, and not of
 * rounding.
 */
import { SvcError } from '../protocol/errors.ts';
import { answerOfChild } from './ask-child.ts';
import type { EngineFinish, EngineOutput } from './addon.ts';
import type { FromEngine } from './messages.ts';

/** Questions that the built-in model answers with tokens that it is sure of. The speed is that of the last answer. */
export const PROOF_QUESTIONS: readonly string[] = ['How do I stop the daemon?', 'How do I see the log?'];
/** Most tokens of an answer. */
export const PROOF_TOKENS = 23;
/** A driver may compile its shaders first, for minutes if it computes on the processor. */
const TIMEOUT_MS = 300_000;

export interface ProofOptions {
  /** Path of the backend. */
  readonly module: string;
  /** Path of the built-in model. */
  readonly modelPath: string;
  /** The driver's shader cache; undefined: none. */
  readonly shaderFolder: string | undefined;
  readonly signal?: AbortSignal;
}

export interface GpuProof {
  /** Name of the device, as ggml reports it: `Vulkan0`. */
  readonly device: string;
  /** Tokens per second of the built-in model. */
  readonly tokensPerSecond: number;
}

/** @throws SvcError ENGINE_UNAVAILABLE if the texts differ or no device is used; ENGINE_CRASHED, TIMEOUT and others */
export async function proveGpu({ module, ...options }: ProofOptions): Promise<GpuProof> {
  const gpu = await answers({ ...options, gpuModule: module });
  if (gpu.device === 'CPU') {
    throw new SvcError('ENGINE_UNAVAILABLE', 'the backend was loaded, but the model stayed on the processor');
  }
  const cpu = await answers({ ...options, gpuModule: undefined });
  if (gpu.texts.join('\0') !== cpu.texts.join('\0')) {
    throw new SvcError('ENGINE_UNAVAILABLE', `${gpu.device} computes other tokens than the processor`, {
      hint: 'update the GPU driver; svc runs on the CPU meanwhile',
    });
  }
  return { device: gpu.device, tokensPerSecond: gpu.tokensPerSecond };
}

interface Answers {
  readonly device: string;
  readonly texts: readonly string[];
  readonly tokensPerSecond: number;
}

/** Asks the questions, one after the other, in a child process. */
async function answers({
  modelPath,
  shaderFolder,
  gpuModule,
  signal,
}: Omit<ProofOptions, 'module'> & { readonly gpuModule: string | undefined }): Promise<Answers> {
  const texts = PROOF_QUESTIONS.map(() => '');
  let device = '';
  const options = { context_length: 512, max_sequences: 1, gpu_layers: gpuModule === undefined ? 0 : 999 };
  const answer = await answerOfChild<Answers | SvcError>(
    {
      gpuModule,
      ask: { type: 'load', model: 'builtin', path: modelPath, options, shaderFolder, parentPid: process.pid },
      timeoutMs: TIMEOUT_MS,
      ...(signal === undefined ? {} : { signal }),
      read(message, send) {
        const generate = (index: number): void => {
          const sampling = { temperature: 0 };
          const messages = [{ role: 'user', content: PROOF_QUESTIONS[index] as string }];
          send({ type: 'generate', request: { id: index + 1, messages, max_tokens: PROOF_TOKENS, sampling } });
        };
        if (message.type === 'loaded') {
          device = message.info.device;
          generate(0);
        }
        for (const { id, text, finish, error } of outputsOf(message)) {
          if (error !== undefined) return SvcError.fromRecord(error as never);
          texts[id - 1] = (texts[id - 1] ?? '') + text;
          if (finish === undefined) continue;
          if (id === PROOF_QUESTIONS.length) return { device, texts, tokensPerSecond: speedOf(finish) };
          generate(id);
        }
        return undefined;
      },
    },
    'timeout: the built-in model answered nothing',
  );
  if (answer instanceof SvcError) throw answer;
  return answer;
}

/** Without the first token, which takes the time of the prompt. */
function speedOf({ usage, timings }: EngineFinish): number {
  return ((usage.output_tokens - 1) * 1000) / (timings.finished_ms - (timings.first_token_ms ?? 0));
}

function outputsOf(message: FromEngine): readonly EngineOutput[] {
  return message.type === 'step' ? message.outputs : [];
}
