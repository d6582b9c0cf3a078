/** Checks of the providers: a key is present and the endpoints answer. No key is read, sent or shown. */
import { lookup } from 'node:dns';
import type { KeyEntry } from '../../../home/key-file.ts';
import { Dispatchers } from '../../../net/dispatchers.ts';
import { loadUndici } from '../../../net/undici.ts';
import type { DoctorCheck } from '../../../protocol/doctor.ts';
import type { ProviderRecord } from '../../../protocol/records.ts';
import { check, skipped } from './check.ts';

const ANSWER_MS = 5000;

/** `offline`: contacts no provider. */
export async function checkProviders(
  all: readonly ProviderRecord[],
  { offline }: { readonly offline: boolean },
): Promise<DoctorCheck> {
  const providers = all.filter(({ kind, enabled }) => kind !== 'local' && enabled);
  if (providers.length === 0) return skipped('providers', 'no provider is configured');
  const keyless = providers.filter(({ credential }) => credential.source !== 'none' && !credential.present);
  const silent = offline ? [] : await findSilent(providers);
  const value = providers.map(({ name }) => name).join(', ');
  const detail = [
    ...keyless.map(({ name, credential }) => `${name}: no key in ${credential.name ?? credential.source}`),
    ...silent.map(({ name, why }) => `${name}: ${why}`),
  ].join('; ');
  const [first] = keyless;
  if (first !== undefined) {
    return check('providers', 'fail', value, { detail, hint: `svc provider set ${first.name} --api-key-stdin` });
  }
  if (silent.length > 0) {
    const hint = 'check the network and base_url, or skip this check with --offline';
    return check('providers', 'warn', value, { detail, hint });
  }
  return check('providers', 'ok', value, { detail: offline ? 'keys are present; not contacted (--offline)' : null });
}

/** Without API keys, every program on this machine can spend the credit of the providers' keys. */
export function checkApiKeys(all: readonly ProviderRecord[], keys: readonly KeyEntry[]): DoctorCheck {
  const paid = all.filter(({ enabled, credential }) => enabled && credential.present).map(({ name }) => name);
  if (keys.length > 0) return check('api_keys', 'ok', keys.map(({ name, scope }) => `${name} (${scope})`).join(', '));
  if (paid.length === 0) return check('api_keys', 'ok', 'no keys: programs on this machine need none');
  return check('api_keys', 'warn', 'none', {
    detail: `every program and user on this machine can spend credit at ${paid.join(', ')}`,
    hint: 'svc key add NAME; a key of --scope local cannot use providers',
  });
}

async function findSilent(providers: readonly ProviderRecord[]): Promise<{ name: string; why: string }[]> {
  // As requests do, it goes through the proxy of the environment.
  const dispatchers = new Dispatchers({ connectTimeoutMs: ANSWER_MS, lookup: () => lookup });
  const asked = providers.flatMap(({ name, base_url, endpoints }) => {
    const urls = new Set([...(base_url === null ? [] : [base_url]), ...endpoints]);
    return [...urls].map(async (url) => ({ name, why: await whySilent(url, dispatchers) }));
  });
  try {
    return (await Promise.all(asked)).flatMap(({ name, why }) => (why === null ? [] : [{ name, why }]));
  } finally {
    await dispatchers.destroy();
  }
}

/** Any answer will do, also one that asks for a key. Only the URL's host is reported: the rest may contain secrets. */
async function whySilent(text: string, dispatchers: Dispatchers): Promise<string | null> {
  if (!URL.canParse(text)) return 'its base_url cannot be reached (not a URL)';
  const url = new URL(text);
  try {
    const undici = await loadUndici();
    const dispatcher = dispatchers.for(undici, url, new Set());
    const answer = await undici.request(url, { dispatcher, method: 'HEAD', signal: AbortSignal.timeout(ANSWER_MS) });
    await answer.body.dump();
    return null;
  } catch (error) {
    const { name, code } = error as NodeJS.ErrnoException;
    const why = name === 'TimeoutError' ? `no answer within ${String(ANSWER_MS / 1000)} s` : (code ?? name);
    return `${url.host} cannot be reached (${why})`;
  }
}
