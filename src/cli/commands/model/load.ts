import { ControlClient } from '../../../client/control-client.ts';
import { resolvePaths } from '../../../home/paths.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { namingPull } from '../../asking/offer-pull.ts';
import { jsonLinesFlag, modelArgument, type Run, type Spec } from '../../spec.ts';
import { ByteProgress } from '../../terminal/byte-progress.ts';
import { count } from '../../terminal/format.ts';
import { modelName } from '../../machine/model-name.ts';
import { printJsonLine, sayProgress } from '../../terminal/output.ts';
import { printText } from '../../terminal/result.ts';

export const spec = {
  summary: 'Load a model into memory now',
  detail: ['It stays loaded until it is unloaded or its memory is needed for another model.'],
  arguments: [modelArgument],
  flags: {
    context: {
      kind: 'count',
      least: 1,
      most: LIMITS.contextLength,
      value: 'N',
      summary: 'minimum context length in tokens',
    },
    'keep-alive': { kind: 'duration', value: 'TIME', summary: 'unload it after this much idle time' },
    pin: { kind: 'switch', summary: 'never unload it to make room for other models' },
    json: jsonLinesFlag,
  },
  examples: ['svc model load qwen', 'svc model load qwen --pin', 'svc model load qwen --context 32768 --json'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ json, context, 'keep-alive': keepAliveMs, pin }, { model }) => {
  const client = new ControlClient(resolvePaths().socketPath);
  const wishes = {
    ...(context === undefined ? {} : { context_length: context }),
    ...(keepAliveMs === undefined ? {} : { keep_alive_seconds: keepAliveMs / 1000 }),
    ...(pin ? { pin } : {}),
  };
  const progress = new ByteProgress(`loading ${model}`);
  try {
    await namingPull(model, async () => {
      for await (const event of client.load(modelName(model), new AbortController().signal, wishes)) {
        if (json) printJsonLine(event);
        else if (event.type === 'progress') progress.show(event);
        else {
          sayProgress('');
          printText(
            `loaded ${event.model} (pid ${String(event.pid)}, context of ${count(event.context_length)} tokens)`,
          );
        }
      }
    });
  } finally {
    sayProgress('');
  }
};
