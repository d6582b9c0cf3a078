/** The benchmark report: it must show missed targets, failures and missing figures. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { report } from '../../bench/peers/report.ts';
import type { Measured, Result, Results } from '../../bench/peers/results.ts';
import type { Bar } from '../../bench/peers/scenario.ts';
import type { ServerName } from '../../bench/peers/servers/server.ts';

const PEER = 'llama-server';

function turns(server: ServerName, ...figures: (number | null)[]): Measured[] {
  return figures.map((figure, repetition) => ({ server, repetition, figures: [figure], error: null }));
}

function failed(server: ServerName, repetition: number): Measured {
  return { server, repetition, figures: null, error: 'it broke' };
}

function results(measured: readonly Measured[], bars: readonly Bar[], isMoreBetter = true): Results {
  const figures = [{ name: 'decode', unit: 'tokens/s', isMoreBetter, bars } as const];
  const result: Result = { model: 'm.gguf', scenario: 'one stream', figures, measured };
  const about = {
    heading: 'Beside others',
    machine: 'a machine',
    startedAt: '2026-01-02T00:00:00Z',
    commands: ['svc serve'],
    seconds: 90,
  };
  return { ...about, repetitions: 3, planned: 1, results: [result] };
}

const rowsOf = (text: string): string[] => text.split('\n').filter((line) => line.startsWith('| one stream'));

test('the report has medians, spreads, and the median of the ratios of each repetition', () => {
  const text = report(
    results([...turns('svc', 30, 20, 10), ...turns(PEER, 10, 10, 10)], [{ server: PEER, ratio: 1.5 }]),
  );
  assert.equal(rowsOf(text), [
    '| one stream: decode | 20.0 (10.0–30.0) tokens/s | llama-server | 10.0 (10.0–10.0) tokens/s | 2.00 (1.00–3.00) | ≥ 1.5 × | reached |',
  ]);
  assert.match(text, '**1 of 1 bars reached.**');
  assert.match(text, 'a machine. 2026-01-02, 2 minutes');
  assert.match(text, /^## Beside others\n/);
});

test('missed targets are marked, and listed before all tables', () => {
  const slow = report(results([...turns('svc', 9, 9, 9), ...turns(PEER, 10, 10, 10)], [{ server: PEER, ratio: 1 }]));
  assert.match(rowsOf(slow)[0] ?? '', /\| \*\*missed\*\* \|$/);
  assert.match(slow, '**0 of 1 bars reached.**\n- missed: m.gguf, one stream: decode, beside llama-server');
  const late = report(
    results([...turns('svc', 40), ...turns(PEER, 100)], [{ server: PEER, ratio: 0.3 }, { limit: 50 }], false),
  );
  assert.match(late, '**1 of 2 bars reached.**');
});

test('a figure that only svc has is compared with its own target', () => {
  const text = report(results(turns('svc', 0.9, 0.96, 0.99), [{ limit: 0.95 }]));
  assert.equal(rowsOf(text), [
    '| one stream: decode | 0.96 (0.90–0.99) tokens/s | – | – | – | ≥ 0.95 tokens/s | reached |',
  ]);
});

test('without a target nothing is reached or missed; a server without the figure is omitted', () => {
  const text = report(results([...turns('svc', 1), ...turns('node-llama-cpp', 2), ...turns(PEER, null)], []));
  assert.equal(rowsOf(text), ['| one stream: decode | 1.00 tokens/s | node-llama-cpp | 2.00 tokens/s | 0.50 | – |  |']);
  assert.match(text, '**0 of 0 bars reached.**');
});

test('failures are reported; a target that could not be compared counts as missed', () => {
  const bars = [{ server: PEER, ratio: 1 }] as const;
  const once = report(results([...turns('svc', 10, 10), ...turns(PEER, 5), failed(PEER, 1)], bars));
  assert.match(rowsOf(once)[0] ?? '', /\| 2\.00 \| ≥ 1 × \| reached \|$/);
  assert.match(once, '- one stream: llama-server failed in 1 of 2 turns: it broke');
  const ours = report(results([failed('svc', 0), ...turns(PEER, 5)], bars));
  assert.match(
    rowsOf(ours)[0] ?? '',
    /\| failed \| llama-server \| 5\.00 tokens\/s \| – \| ≥ 1 × \| \*\*missed\*\* \|$/,
  );
  const theirs = report(results([...turns('svc', 5), failed(PEER, 0)], bars));
  assert.match(rowsOf(theirs)[0] ?? '', /\| failed \| – \| ≥ 1 × \| \*\*missed\*\* \|$/);
});

test('an incomplete run is reported as such', () => {
  const whole = results(turns('svc', 1), []);
  assert.not.match(report(whole), 'cut off');
  assert.match(report({ ...whole, planned: 7 }), '6 of 7 scenarios are missing');
});

test.run();
