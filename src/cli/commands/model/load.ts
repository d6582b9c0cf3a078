import { Client } from '../../../client/client.ts';
import { resolvePaths } from '../../../home/paths.ts';
import type { Run } from '../../commands.ts';
import { count } from '../../terminal/format.ts';
import { modelName } from '../../machine/model-name.ts';
import { print, printJsonLine, sayProgress } from '../../terminal/output.ts';

export const run: Run<'model load'> = async ({ json, context, 'keep-alive': keepAliveMs, pin }, { model }) => {
  const client = new Client(resolvePaths().socketPath);
  const wishes = {
    ...(context === undefined ? {} : { context_length: context }),
    ...(keepAliveMs === undefined ? {} : { keep_alive_seconds: keepAliveMs / 1000 }),
    ...(pin ? { pin } : {}),
  };
  try {
    for await (const event of client.load(modelName(model), new AbortController().signal, wishes)) {
      if (json) printJsonLine(event);
      else if (event.type === 'progress') sayProgress(`loading ${model}: ${(event.fraction * 100).toFixed(0)} %`);
      else {
        sayProgress('');
        print(`loaded ${event.model} (pid ${String(event.pid)}, context of ${count(event.context_length)} tokens)`);
      }
    }
  } finally {
    sayProgress('');
  }
  return 0;
};
