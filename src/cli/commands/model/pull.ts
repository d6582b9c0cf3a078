import { jsonLinesFlag, type Run, type Spec } from '../../spec.ts';
import { bytes } from '../../terminal/format.ts';
import { printText } from '../../terminal/result.ts';
import { pullModel } from '../../machine/pull.ts';

export const spec = {
  summary: 'Download a model, verify it and add it',
  detail: [
    'MODEL is a short name from `svc model search`, hf:owner/repo[:QUANTIZATION][@revision], ollama:name[:tag], or an https URL with --sha256. Ctrl-C pauses the download; the same command resumes it, also after a crash.',
  ],
  arguments: [{ name: 'model', required: true }],
  flags: {
    sha256: { kind: 'string', value: 'HEXADECIMAL', summary: 'expected SHA-256 digest of the file at a URL' },
    json: jsonLinesFlag,
  },
  examples: ['svc model pull qwen3-4b', 'svc model pull hf:Qwen/Qwen3-4B-GGUF:Q8_0', 'svc model pull ollama:qwen3:4b'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ sha256, json }, { model }) => {
  const { id, size_bytes } = await pullModel({ model, json, ...(sha256 === undefined ? {} : { sha256 }) });
  if (!json) printText(`pulled ${id} (${bytes(size_bytes)}); try it: svc run -m ${id} "Hello"`);
};
