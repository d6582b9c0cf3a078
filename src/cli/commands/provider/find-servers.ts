/** Looks for self-hosted servers at their usual addresses on this machine. Runs only for `--probe`. */
import { catalogue } from '../../../config/catalogue.ts';

const ANSWER_MS = 1000;
const ANSWER_BYTES = 4 * 1024 * 1024;

export interface FoundServer {
  readonly name: string;
  readonly base_url: string;
  readonly models: readonly string[];
}

export async function findServers(): Promise<FoundServer[]> {
  const usual = [...catalogue().values()].flatMap(({ name, base_url, also_at, self_hosted }) =>
    self_hosted ? [base_url, ...also_at].flatMap((url) => (url === null ? [] : [{ name, base_url: url }])) : [],
  );
  const found = await Promise.all(
    usual.map(async (server) => {
      const models = await modelsAt(server.base_url);
      return models === null ? [] : [{ ...server, models }];
    }),
  );
  return found.flat();
}

/** Returns the server's models; null if nothing answers, or it is another kind of server. */
async function modelsAt(baseUrl: string): Promise<readonly string[] | null> {
  try {
    const answer = await fetch(`${baseUrl}/models`, { redirect: 'error', signal: AbortSignal.timeout(ANSWER_MS) });
    const text = answer.ok ? await answer.text() : '';
    if (text.length > ANSWER_BYTES) return null;
    const { data } = JSON.parse(text) as { data?: unknown };
    if (!Array.isArray(data)) return null;
    return data.flatMap((model: unknown) => {
      const id = (model as { id?: unknown } | null)?.id;
      return typeof id === 'string' ? [id] : [];
    });
  } catch {
    return null;
  }
}
