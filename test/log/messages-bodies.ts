/** Bodies of Anthropic's Messages, valid and invalid, with secrets in each place that a client controls. */
export interface Secrets {
  readonly prompt: string;
  readonly key: string;
  /** In base64. */
  readonly data: string;
}

export function messagesBodies({ prompt, key, data }: Secrets): object[] {
  const messages = [{ role: 'user', content: prompt }];
  const answered = { messages, max_tokens: 2 };
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
  const use = { type: 'tool_use', id: 'a', name: 'look', input: { at: prompt } };
  const result = { type: 'tool_result', tool_use_id: 'a', content: `${prompt} ${key}` };
  const turns = [...messages, { role: 'assistant', content: [use] }, { role: 'user', content: [result] }];
  return [
    { ...answered, system: `${prompt} ${key}` },
    { ...answered, stream: true, metadata: { user_id: key } },
    { ...answered, stop_sequences: [prompt], tools: [{ name: 'look', input_schema: { const: prompt } }] },
    { ...answered, messages: turns },
    { ...answered, messages: [{ role: 'user', content: [result, image] }] },
    { ...answered, messages: [{ role: prompt, content: key }] },
    { ...answered, tool_choice: { type: 'tool', name: prompt } },
    { messages, max_tokens: key },
  ];
}
