/** The AI SDK with the providers of OpenAI (both APIs), of compatible servers, of Anthropic and of Ollama. */
import { runClientSuite } from './client-suite.ts';

runClientSuite('ai');
