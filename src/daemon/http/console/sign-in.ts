/** Links that sign a browser in to the console, made over the control socket, and the exchange of one for a key. */
import * as v from 'valibot';
import { parse, presentFields } from '../../../protocol/validate.ts';
import { readJson } from '../body.ts';
import type { Exchange } from '../exchange.ts';

const LinkSchema = v.object({ file: v.exactOptional(v.boolean(), false) });
// Validation errors mention only the limits, never the token.
const SignInSchema = v.object({ token: v.pipe(v.string(), v.minLength(1), v.maxLength(128)) });

export async function link(exchange: Exchange): Promise<void> {
  const { file } = parse(LinkSchema, presentFields(await readJson(exchange)));
  exchange.reply.json(200, await exchange.services.console.link(file));
}

export async function signIn(exchange: Exchange): Promise<void> {
  const { token } = parse(SignInSchema, presentFields(await readJson(exchange)));
  exchange.reply.setHeader('cache-control', 'no-store');
  exchange.reply.json(200, exchange.services.console.signIn(token));
}
