/** A body of Anthropic's Messages with every field, for the target `json`. */

/** As Anthropic's clients send it. */
export const MESSAGES = {
  model: 'tiny',
  max_tokens: 1,
  system: [{ type: 'text', text: 'x-anthropic-billing-header: cc_version=1.2;', cache_control: { type: 'ephemeral' } }],
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'a' },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } },
        { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } },
        { type: 'document', title: 'a', source: { type: 'text', media_type: 'text/plain', data: 'b' } },
        { type: 'search_result', title: 'a', source: 'b', content: [{ type: 'text', text: 'c' }] },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'a', signature: 'b' },
        { type: 'redacted_thinking', data: 'c' },
        { type: 'text', text: 'd' },
        { type: 'tool_use', id: 'c', name: 'd', input: { a: 1 } },
      ],
    },
    {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'c', is_error: true, content: [{ type: 'text', text: 'e' }] }],
    },
  ],
  stop_sequences: ['x'],
  tools: [
    { name: 'd', description: 'h', strict: true, input_schema: { type: 'object' } },
    { type: 'web_search_20250305', name: 'web_search', max_uses: 5 },
  ],
  tool_choice: { type: 'tool', name: 'd', disable_parallel_tool_use: true },
  thinking: { type: 'enabled', budget_tokens: 1024, display: 'omitted' },
  output_config: { effort: 'max', format: { type: 'json_schema', schema: { type: 'object' } } },
  output_format: { type: 'json_schema', schema: { type: 'object' } },
  stream: false,
  keep_alive: '5m',
  temperature: 0.5,
  top_k: 10,
  top_p: 0.9,
  min_p: 0.1,
  seed: 1,
  truncate: true,
  repetition_guard: 'warn',
  chat_template_kwargs: { enable_thinking: false },
  route: 'local',
  fallback: false,
  priority: 'batch',
  context_length: 1,
  store: false,
  metadata: { user_id: 'a' },
  service_tier: 'auto',
  // Not supported: refused by name unless empty.
  mcp_servers: [],
};
