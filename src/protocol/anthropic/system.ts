/** The system prompt of a request in Anthropic's format. */
import { parse } from '../validate.ts';
import { SystemBlocksSchema } from './blocks.ts';
import { joined } from './messages.ts';

/**
 * Header that Claude Code puts before its system prompt, for Anthropic's invoices. It has hashes that change with every
 * prompt: left in, nothing after it would ever be found in a prefix cache. It says nothing to a model.
 */
const BILLING_HEADER = /^x-anthropic-billing-header:(?:[ \t]*\w+=[^;\s]*(?:;|(?!\S)))*\s*/;

/** Empty: none. Throws INVALID_REQUEST. */
export function toSystem(system: unknown): string {
  if (system === undefined) return '';
  const texts =
    typeof system === 'string' ? [system] : parse(SystemBlocksSchema, system, 'system').map(({ text }) => text);
  const [first = '', ...rest] = texts;
  return joined([first.replace(BILLING_HEADER, ''), ...rest]);
}
