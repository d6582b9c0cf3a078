/** Bodies of the routes that the console uses, with a text in each place that a client controls. */
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';

export function consoleBodies(text: string): Readonly<Record<string, () => object[]>> {
  const models = (): object[] => [
    { model: text },
    { model: `file:/${text}` },
    { model: [text] },
    { model: 'x', context_length: text, [text]: text },
  ];
  return {
    [HTTP_ROUTES.runtimeLoad]: models,
    [HTTP_ROUTES.runtimeUnload]: models,
    [HTTP_ROUTES.runtimePull]: () => [
      ...models(),
      { model: `hf:o/${text}`, sha256: text },
      { model: 'x', hub: { endpoint: text } },
    ],
    [HTTP_ROUTES.runtimeQuantize]: () => [
      ...models(),
      { model: 'default', type: text },
      { model: 'default', type: 'Q8_0', name: `${text} x` },
      { model: 'default', type: 'Q8_0', allow_requantize: text },
    ],
    [HTTP_ROUTES.runtimeVerify]: models,
    [HTTP_ROUTES.runtimeImport]: () => [{ models: [text] }, { models: text }, { models: [{ [text]: text }] }],
    [HTTP_ROUTES.runtimeRemove]: models,
    [HTTP_ROUTES.runtimeDefault]: models,
    [HTTP_ROUTES.runtimeCancel]: () => [{ id: text }, { id: [text] }],
    [HTTP_ROUTES.runtimeKeys]: () => [
      { name: `${text} x` },
      { name: 'x', scope: text },
      { name: 'x', models: { [text]: text } },
      { name: 'x', expires_at: text, tokens_per_day: text },
    ],
    [HTTP_ROUTES.runtimeKeysRemove]: () => [{ name: text }, { name: [text] }],
    [HTTP_ROUTES.signIn]: () => [{ token: text }, { token: [text] }, { [text]: text }],
  };
}
