/** LangChain's clients of OpenAI (both APIs), Anthropic and Ollama. */
import { runClientSuite } from './client-suite.ts';

runClientSuite('langchain');
