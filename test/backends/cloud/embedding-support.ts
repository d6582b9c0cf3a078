/** A fake provider of embeddings and of reranking: what it sends is made of the texts, so that a test can tell them apart. */
import type { Script, Turn } from './upstream.ts';

/** Number of dimensions without `dimensions` in the request. */
export const DIMENSIONS = 8;

/** The vector of a text: length 1, another one for each text. */
export function vectorOf(text: string, dimensions = DIMENSIONS): Float32Array {
  const bytes = Buffer.from(text);
  const vector = Float32Array.from({ length: dimensions }, (_, at) => 1 + ((bytes[at % bytes.length] ?? 0) % 17) + at);
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
}

/** Answers as OpenAI does, the last input first, with a token for each character. */
export const openAiVectors: Script = (turn) => {
  const { model, input, encoding_format, dimensions } = turn.request.body as {
    model: string;
    input: string[];
    encoding_format?: string;
    dimensions?: number;
  };
  const encoded = (vector: Float32Array): unknown =>
    encoding_format === 'base64' ? Buffer.from(vector.buffer).toString('base64') : Array.from(vector);
  const data = input.map((text, index) => ({
    object: 'embedding',
    index,
    embedding: encoded(vectorOf(text, dimensions)),
  }));
  const tokens = input.join('').length;
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  turn.json(200, { object: 'list', model: `${model}-2026`, data: data.reverse(), usage });
};

/** Answers as Gemini does. */
export function geminiVectors(turn: Turn): void {
  const { requests } = turn.request.body as {
    requests: { content: { parts: [{ text: string }] }; outputDimensionality?: number }[];
  };
  const embeddings = requests.map(({ content, outputDimensionality }) => ({
    values: Array.from(vectorOf(content.parts[0].text, outputDimensionality)),
  }));
  turn.json(200, { embeddings, usageMetadata: { promptTokenCount: requests.length } });
}

/** Scores each document by its length. Answers as Jina does, the best first, with a token for each character. */
export const lengthScores: Script = (turn) => {
  const { model, documents } = turn.request.body as { model: string; documents: string[] };
  const results = documents.map((text, index) => ({ index, relevance_score: text.length }));
  results.sort((a, b) => b.relevance_score - a.relevance_score);
  const total_tokens = documents.join('').length;
  turn.json(200, { model: `${model}-2026`, object: 'list', results, usage: { total_tokens } });
};
