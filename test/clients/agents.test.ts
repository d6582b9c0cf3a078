/** OpenAI's Agents SDK over Responses and Chat Completions. */
import { runClientSuite } from './client-suite.ts';

runClientSuite('agents');
