/** OpenAI's legacy completions, embeddings and transcriptions. */
import { honoured, ignored, refused, type Api, type Field } from './declare.ts';

const resources = 'openai/resources';
const STREAM = { stream: true, stream_options: {} };
export const PADDING = 'a stream has no padding';
const USER = 'svc counts by API key, not by user';

/** Settings that chat completions and legacy completions have in common. */
export const SHARED: readonly Field[] = [
  honoured('model', 'model', 'small'),
  honoured('stream', 'answer', true),
  honoured('stream_options', 'answer', { include_usage: true }, { stream: true }),
  honoured('stream_options.include_usage', 'answer', true, STREAM),
  ignored('stream_options.include_obfuscation', PADDING, true, STREAM),
  honoured('temperature', 'sampling.temperature', 0.5),
  honoured('top_p', 'sampling.top_p', 0.5),
  honoured('seed', 'sampling.seed', 7),
  honoured('frequency_penalty', 'sampling.frequency_penalty', 1),
  honoured('presence_penalty', 'sampling.presence_penalty', 1),
  honoured('logit_bias', 'sampling.logit_bias', { '5': 1 }),
  honoured('stop', 'stop', 'END'),
  honoured('n', 'answer', 2),
  ignored('user', USER, 'someone'),
];

export const COMPLETIONS: Api = {
  title: 'OpenAI: completions',
  path: '/v1/completions',
  sdk: { file: `${resources}/completions.d.ts`, name: 'CompletionCreateParams', parts: ['stream_options'] },
  base: { model: 'tiny', prompt: 'hi' },
  fields: [
    honoured('prompt', 'raw.text', 'other'),
    honoured('suffix', 'raw.infill', 'end'),
    honoured('max_tokens', 'max_tokens', 5),
    honoured('echo', 'answer', true),
    honoured('logprobs', 'logprobs', 2),
    refused('best_of', 3),
    ...SHARED,
  ],
};

export const EMBEDDINGS: Api = {
  title: 'OpenAI: embeddings',
  path: '/v1/embeddings',
  sdk: { file: `${resources}/embeddings.d.ts`, name: 'EmbeddingCreateParams' },
  base: { model: 'tiny', input: 'hi' },
  fields: [
    honoured('input', 'input', ['a', 'b']),
    honoured('model', 'model', 'small'),
    honoured('dimensions', 'dimensions', 2),
    honoured('encoding_format', 'answer', 'base64'),
    ignored('user', USER, 'someone'),
  ],
};

const PROMPT = 'messages[0].content[1].text';

export const TRANSCRIPTIONS: Api = {
  title: 'OpenAI: transcriptions',
  path: '/v1/audio/transcriptions',
  isForm: true,
  sdk: {
    file: `${resources}/audio/transcriptions.d.ts`,
    name: 'TranscriptionCreateParams',
    kinds: ['response_format'],
    opaque: ['file'],
  },
  base: { model: 'tiny', file: Buffer.from('RIFF0000WAVEfmt ', 'latin1') },
  fields: [
    honoured('file', 'messages[0].content[0].data', Buffer.from('RIFF1111WAVEfmt ', 'latin1')),
    honoured('model', 'model', 'small'),
    honoured('language', PROMPT, 'de'),
    honoured('prompt', PROMPT, 'so far'),
    honoured('temperature', 'sampling.temperature', '0.5'),
    honoured('stream', 'answer', 'true'),
    ignored('response_format = json', 'it is the default', 'json'),
    honoured('response_format = text', 'answer', 'text'),
    honoured('response_format = verbose_json', 'answer', 'verbose_json'),
    refused('response_format = srt', 'srt'),
    refused('response_format = vtt', 'vtt'),
    refused('response_format = diarized_json', 'diarized_json'),
    refused('timestamp_granularities', 'word'),
    refused('include', 'logprobs'),
    refused('chunking_strategy', 'auto'),
    refused('known_speaker_names', 'Ada'),
    refused('known_speaker_references', 'data:audio/wav;base64,UklGRg=='),
  ],
};
