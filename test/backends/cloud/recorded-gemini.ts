/** Answers of Gemini's streamGenerateContent, event by event. */
import { given } from '../../../src/protocol/given.ts';
import type { Recorded } from './wire-support.ts';

const MODEL = 'gemini-3.8-flash';
const ID = 'sN8UafDwJ4TWz7IP';

function response(candidate: object | null, usage?: object, more: object = {}): Recorded {
  return [
    undefined,
    {
      ...(candidate === null ? {} : { candidates: [{ index: 0, ...candidate }] }),
      ...given({ usageMetadata: usage }),
      modelVersion: MODEL,
      responseId: ID,
      ...more,
    },
  ];
}

const model = (...parts: object[]): object => ({ content: { parts, role: 'model' } });

export const HELLO: readonly Recorded[] = [
  response(model({ text: 'Hello' }), { promptTokenCount: 4, totalTokenCount: 5, candidatesTokenCount: 1 }),
  response(model({ text: '! 👋 Grüße' }), { promptTokenCount: 4, totalTokenCount: 9, candidatesTokenCount: 5 }),
  // The last part has a signature instead of text.
  response(
    { ...model({ text: '', thoughtSignature: 'EjQKMgFyyZq0cNtXb3u+K5yQ' }), finishReason: 'STOP' },
    {
      promptTokenCount: 4,
      candidatesTokenCount: 6,
      totalTokenCount: 30,
      thoughtsTokenCount: 20,
      promptTokensDetails: [{ modality: 'TEXT', tokenCount: 4 }],
    },
  ),
];

export const THOUGHT_AND_CALLS: readonly Recorded[] = [
  response(model({ text: '**Weather**\n\nThe user wants', thought: true }), { promptTokenCount: 90 }),
  response(model({ text: ' the weather.', thought: true })),
  response(model({ text: "Let's look." })),
  response(
    model(
      {
        functionCall: { name: 'get_weather', args: { city: 'Köln' }, id: 'a1b2c3d4' },
        thoughtSignature: 'EvQCCvECAb4+9vtQ',
      },
      { functionCall: { name: 'get_time', args: {}, id: 'e5f6' } },
    ),
  ),
  response(
    { content: { role: 'model' }, finishReason: 'STOP', finishMessage: 'Model generated function call(s).' },
    { promptTokenCount: 90, candidatesTokenCount: 30, thoughtsTokenCount: 40, totalTokenCount: 160 },
  ),
];

/** Calls of a model that gives them no ids. */
export const CALLS_WITHOUT_IDS: readonly Recorded[] = [
  response({
    ...model(
      { functionCall: { name: 'get_weather', args: { city: 'Köln' } } },
      { functionCall: { name: 'get_weather', args: { city: 'Bonn' } } },
      { functionCall: { name: 'get_time' } },
    ),
    finishReason: 'STOP',
  }),
];

export const CACHED: readonly Recorded[] = [
  response(
    { ...model({ text: 'Yes.' }), finishReason: 'STOP' },
    {
      promptTokenCount: 2122,
      cachedContentTokenCount: 2000,
      toolUsePromptTokenCount: 10,
      candidatesTokenCount: 5,
      thoughtsTokenCount: 7,
      totalTokenCount: 2144,
    },
  ),
];

/** Only usage, then an unrequested alternative, code that the server ran, and a source. */
export const ODD: readonly Recorded[] = [
  response(null, { promptTokenCount: 4 }),
  response(model({ text: 'Fo' }), undefined, {
    candidates: [
      { index: 1, content: { parts: [{ text: 'Other' }], role: 'model' }, finishReason: 'SAFETY' },
      { index: 0, content: { parts: [{ text: 'Fo' }], role: 'model' }, groundingMetadata: {} },
    ],
  }),
  response(model({ executableCode: { language: 'PYTHON', code: '1' } }, { text: 'und.' })),
  response({ finishReason: 'STOP', safetyRatings: [] }),
];

export const BLOCKED_PROMPT: readonly Recorded[] = [
  response(
    null,
    { promptTokenCount: 8, totalTokenCount: 8 },
    { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } },
  ),
];

export const ending = (reason: string): readonly Recorded[] => [
  response(model({ text: 'Well' })),
  response({ finishReason: reason, finishMessage: 'secret' }),
];

export const OVERLOADED: Recorded = [
  undefined,
  { error: { code: 503, message: 'The model is overloaded. Please try again later.', status: 'UNAVAILABLE' } },
];

export const BAD_KEY = {
  error: {
    code: 400,
    message: 'API key not valid. Please pass a valid API key.',
    status: 'INVALID_ARGUMENT',
    details: [
      { '@type': 'type.googleapis.com/google.rpc.LocalizedMessage', locale: 'en-US', message: 'API key not valid.' },
      { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID', domain: 'googleapis.com' },
    ],
  },
};

export const MODELS_PAGE = {
  models: [
    {
      name: 'models/gemini-3.8-flash',
      displayName: 'Gemini 3.8 Flash',
      inputTokenLimit: 1048576,
      supportedGenerationMethods: ['generateContent', 'countTokens'],
    },
    { name: 'models/gemini-embedding-001', supportedGenerationMethods: ['embedContent'] },
    { name: 'tunedModels/mine', supportedGenerationMethods: ['generateContent'] },
  ],
  nextPageToken: 'Ch9tb2RlbHM=',
};
