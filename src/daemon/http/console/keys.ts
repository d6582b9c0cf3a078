/** API keys, for the console: as `svc key` lists, makes and removes them. */
import * as v from 'valibot';
import { KEY_LIMIT_FIELDS, KEY_SCOPES, type KeyWishes } from '../../../protocol/keys.ts';
import { invalid, parse, presentFields } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import type { Exchange } from '../exchange.ts';

const NameSchema = v.object({ name: v.pipe(v.string(), v.minLength(1), v.maxLength(64)) });
const KeySchema = v.object({
  ...NameSchema.entries,
  scope: v.exactOptional(v.picklist(KEY_SCOPES)),
  ...KEY_LIMIT_FIELDS,
});

export function list({ services, reply }: Exchange): void {
  reply.json(200, { keys: services.console.keys() });
}

export async function add(exchange: Exchange): Promise<void> {
  const wishes: KeyWishes = parse(KeySchema, presentFields(await readJson(exchange)));
  if (wishes.expires_at !== undefined && !(Date.parse(wishes.expires_at) > Date.now()))
    throw invalid('expires_at', 'must be in the future');
  const key = await exchange.services.console.addKey(wishes);
  exchange.reply.setHeader('cache-control', 'no-store');
  exchange.reply.json(200, key);
}

export async function remove(exchange: Exchange): Promise<void> {
  const { name } = parse(NameSchema, presentFields(await readJson(exchange)));
  await exchange.services.console.removeKey(name);
  exchange.reply.json(200, {});
}
