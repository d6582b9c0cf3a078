/** One daemon for all tests of a file, with test models and OpenAI's client. */
import type OpenAI from 'openai';
import * as assert from 'uvu/assert';
import { spawnDaemon, type DaemonProcess } from './daemon.ts';
import { makeHome, type Home } from './home.ts';
import { modelPath } from './native-engine.ts';
import { openAiClient } from './openai.ts';
import { svc } from './svc.ts';
import { assertExit } from './exit.ts';

export interface Serving {
  readonly home: Home;
  readonly daemon: DaemonProcess;
  readonly client: OpenAI;
}

/** `models`: test models (build/models) by the names that they get. */
export async function serve(models: Readonly<Record<string, Parameters<typeof modelPath>[0]>> = {}): Promise<Serving> {
  const home = await makeHome();
  for (const [name, file] of Object.entries(models))
    assertExit(await svc(['model', 'add', modelPath(file), '--name', name], { home }), 0);
  const daemon = await spawnDaemon(home).settled();
  return { home, daemon, client: await openAiClient(daemon) };
}

/** Ends the daemon, which must exit with 0, and removes its home. */
export async function endServing({ home, daemon }: Pick<Serving, 'home' | 'daemon'>): Promise<void> {
  daemon.kill('SIGTERM');
  const { code } = await daemon.exit;
  await home.remove();
  assert.is(code, 0);
}
