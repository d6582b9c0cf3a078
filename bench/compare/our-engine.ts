/** Loads the addon and one model in this process. */
import type { Addon, EngineInfo, NativeEngine, NativeLoadOptions, NativeOutput } from '../../src/engine/addon.ts';
import type { Answer, Question, Sampling } from './cases.ts';

export class OurEngine {
  readonly #engine: NativeEngine;
  readonly #takers: Map<number, (output: NativeOutput) => void>;
  #lastId = 0;

  private constructor(engine: NativeEngine, takers: Map<number, (output: NativeOutput) => void>) {
    this.#engine = engine;
    this.#takers = takers;
  }

  static async load(addon: Addon, model: string, options: NativeLoadOptions): Promise<OurEngine> {
    const takers = new Map<number, (output: NativeOutput) => void>();
    const onStep = (outputs: NativeOutput[]): void => {
      for (const output of outputs) takers.get(output.id)?.(output);
    };
    return new OurEngine(await addon.load(model, options, () => undefined, onStep), takers);
  }

  get info(): EngineInfo {
    return this.#engine.info;
  }

  async ask(question: Question, sampling: Sampling, maxTokens: number): Promise<Answer> {
    const id = (this.#lastId += 1);
    let text = '';
    const answered = new Promise<Answer>((resolve, reject) => {
      this.#takers.set(id, ({ text: piece, finish, error }) => {
        text += piece;
        if (error !== undefined) reject(new Error(`${error.code}: ${error.message}`));
        if (finish === undefined) return;
        const { reason, usage } = finish;
        resolve({ text, finish: reason, inputTokens: usage.input_tokens, outputTokens: usage.output_tokens });
      });
    });
    await this.#engine.submit({ id, ...question, ...sampling, max_tokens: maxTokens, reuse_prefix: false });
    return await answered.finally(() => this.#takers.delete(id));
  }

  async embed(inputs: readonly string[]): Promise<{ vectors: Float32Array[]; tokens: number }> {
    return await this.#vectors((id) => this.#engine.embed({ id, input: inputs }));
  }

  /** Scores in the order of the documents. */
  async rerank(query: string, documents: readonly string[]): Promise<{ scores: number[]; tokens: number }> {
    const { vectors, tokens } = await this.#vectors((id) =>
      this.#engine.rerank({ id, query, documents: [...documents] }),
    );
    return { scores: vectors.map(([score = NaN]) => score), tokens };
  }

  async #vectors(begin: (id: number) => Promise<number>): Promise<{ vectors: Float32Array[]; tokens: number }> {
    const id = (this.#lastId += 1);
    const length = this.#engine.info.embedding_length;
    const vectors: Float32Array[] = [];
    const done = new Promise<void>((resolve, reject) => {
      this.#takers.set(id, ({ embeddings, finish, error }) => {
        for (let at = 0; at < (embeddings?.length ?? 0); at += length)
          vectors.push(embeddings!.subarray(at, at + length));
        if (error !== undefined) reject(new Error(`${error.code}: ${error.message}`));
        if (finish !== undefined) resolve();
      });
    });
    const tokens = await begin(id);
    await done.finally(() => this.#takers.delete(id));
    return { vectors, tokens };
  }

  async close(): Promise<void> {
    await this.#engine.close();
  }
}
