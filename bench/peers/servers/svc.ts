/** svc, started as users start it. */
import { basename } from 'node:path';
import { startDaemon } from '../../daemon.ts';
import { residentBytes } from './processes.ts';
import type { Server, ServerOptions } from './server.ts';

const MODEL = 'bench';
const LOAD_MS = 60_000;

export async function startSvc(options: ServerOptions): Promise<Server> {
  const { model, projector, adapters = [], threads, contextLength, vocabulary } = options;
  const engine = { threads, context_length: contextLength };
  const { url, client, stop } = await startDaemon({
    models: { [MODEL]: model },
    ...(projector === undefined ? {} : { projector }),
    adapters: Object.fromEntries(adapters.map((path) => [basename(path, '.gguf'), path])),
    config: { engine },
  });
  const settings = Object.entries(engine).map(([setting, value]) => `engine.${setting} ${String(value)}`);
  return {
    name: 'svc',
    options,
    command: `svc serve (${settings.join(', ')})`,
    url,
    vocabulary,
    residentBytes: async () => {
      const pid = (await client.health()).models.find(({ id }) => id === MODEL)?.pid ?? null;
      if (pid === null) throw new Error('svc has no engine process');
      return await residentBytes(pid);
    },
    restartEngine: async () => {
      await client.unload(MODEL);
      for await (const _ of client.load(MODEL, AbortSignal.timeout(LOAD_MS)));
    },
    stop,
  };
}
