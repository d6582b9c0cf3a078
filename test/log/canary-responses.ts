/** Requests to the Responses API with secrets in each place that a client controls. */
import { HTTP_ROUTES } from '../../src/protocol/routes.ts';
import { ask, type To } from '../http/ask.ts';

type Secrets = readonly [prompt: string, key: string, data: string];

/** Nothing is stored: a stored response has its prompt in a file of its own (docs/security.md). */
export async function tellResponses(http: To, headers: Record<string, string>, secrets: Secrets): Promise<void> {
  for (const body of bodiesWith(secrets)) {
    await ask(http, HTTP_ROUTES.responses, { headers, body });
    await ask(http, HTTP_ROUTES.responseInputTokens, { headers, body });
  }
  const [prompt, key] = secrets;
  for (const path of [`/${key}`, `/${prompt}/input_items?after=${key}`]) {
    await ask(http, HTTP_ROUTES.responses + path, { headers });
    await ask(http, HTTP_ROUTES.responses + path, { headers, method: 'DELETE' });
  }
  await ask(http, `${HTTP_ROUTES.responses}/${key}/cancel`, { headers, method: 'POST' });
}

function bodiesWith([prompt, key, data]: Secrets): object[] {
  const asked = { input: prompt, instructions: prompt, max_output_tokens: 2, store: false };
  const parts = [
    { type: 'input_text', text: prompt },
    { type: 'input_image', image_url: `data:image/png;base64,${data}` },
    { type: 'input_image', image_url: prompt, file_id: key },
  ];
  return [
    asked,
    { ...asked, stream: true, metadata: { [key]: prompt }, user: key },
    ...parts.map((part) => ({ ...asked, input: [{ role: 'user', content: [part] }] })),
    { ...asked, input: [{ type: prompt, id: key }] },
    { ...asked, input: [{ type: 'item_reference', id: key }] },
    { ...asked, previous_response_id: prompt },
    { ...asked, tools: [{ type: 'function', name: prompt, parameters: { [key]: prompt } }, { type: key }] },
    { ...asked, text: { format: { type: prompt } } },
    { ...asked, conversation: key },
  ];
}
