/** OpenAI's client, version 7. */
import { runClientSuite } from './client-suite.ts';

runClientSuite('openai-7');
