/**
 * A real daemon at log level trace that exports traces, with a provider that quotes everything it receives in its
 * errors; and the search of its traces for planted text.
 */
import * as assert from 'uvu/assert';
import { startUpstream, type Upstream } from '../backends/cloud/upstream.ts';
import { spawnDaemon, type DaemonProcess } from '../support/daemon.ts';
import { configure, makeHome, type Home } from '../support/home.ts';
import { modelPath } from '../support/native-engine.ts';
import { svc } from '../support/svc.ts';
import { startCollector, type CollectorServer } from '../traces/collector.ts';

export interface QuotingDaemon {
  home: Home;
  upstream: Upstream;
  collector: CollectorServer;
  daemon: DaemonProcess;
  port: number;
}

export async function startQuotingDaemon(): Promise<QuotingDaemon> {
  const home = await makeHome();
  const collector = await startCollector();
  let turns = 0;
  const upstream = await startUpstream((turn) => {
    const status = [400, 404, 500, 401, 503, 429][turns++ % 6] ?? 500;
    const quoted = JSON.stringify(turn.request.body);
    turn.json(status, { error: { message: quoted, code: quoted } }, { 'x-should-retry': 'false' });
  });
  const provider = { kind: 'openai_compatible', base_url: `${upstream.url}/v1`, default_model: 'm' };
  configure(home, { providers: { mine: provider } });
  await svc(['model', 'add', modelPath('tiny-rank'), '--name', 'ranker'], { home });
  const env = {
    SVC_LOG_LEVEL: 'trace',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    // Model names with planted text must not reach a real hub.
    HF_ENDPOINT: 'http://127.0.0.1:9',
    HF_HUB_OFFLINE: '1',
  };
  const daemon = await spawnDaemon(home, { env }).settled();
  const { http } = await daemon.client.status();
  return { home, upstream, collector, daemon, port: Number(http?.split(':').at(-1)) };
}

export async function endQuotingDaemon({ home, upstream, collector, daemon }: QuotingDaemon): Promise<void> {
  daemon.kill('SIGKILL');
  await daemon.exit;
  await collector.close();
  await upstream.close();
  await home.remove();
}

/** Ends the daemon, which exports its last spans, and searches all of them for the texts. */
export async function searchTraces({ collector, daemon }: QuotingDaemon, texts: readonly string[]): Promise<void> {
  daemon.kill('SIGTERM');
  await daemon.exit;
  assert.equal(collector.problems, []);
  assert.ok(collector.spans.length > 0);
  const traces = collector.text().toLowerCase();
  for (const text of texts) {
    const at = traces.indexOf(text);
    assert.is(at, -1, `traces: …${traces.slice(Math.max(0, at - 300), at + 100)}…`);
  }
}
