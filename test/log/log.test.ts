import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createLogger, type LogDestination } from '../../src/log/log.ts';
import { SvcError } from '../../src/protocol/errors.ts';

class Lines implements LogDestination {
  readonly lines: string[] = [];
  write(line: string): void {
    this.lines.push(line);
  }
  flushSync(): void {}
  close(): Promise<void> {
    return Promise.resolve();
  }
  get last(): Record<string, unknown> {
    return JSON.parse(this.lines.at(-1) ?? '{}') as Record<string, unknown>;
  }
}

test('an event is one JSON line with level label, ISO time and message', () => {
  const out = new Lines();
  createLogger({ destination: out }).warn({ model: 'm' }, 'two\nlines');
  assert.is(out.lines.length, 1);
  assert.is(out.lines[0]?.indexOf('\n'), out.lines[0]!.length - 1);
  const { time, ...rest } = out.last;
  assert.equal(rest, { level: 'warn', msg: 'two\nlines', model: 'm' });
  assert.is(new Date(String(time)).toISOString(), time);
});

test('a line that is too long is truncated and still one line of JSON', () => {
  const out = new Lines();
  const log = createLogger({ destination: out });
  log.warn({ route: 'x'.repeat(300_000) }, 'too much');
  const { level, msg, cut } = out.last;
  assert.equal({ level, msg }, { level: 'warn', msg: 'too much' });
  assert.ok(Number(cut) > 300_000);
  log.warn('y'.repeat(300_000));
  log.error({ err: new Error('z'.repeat(300_000)) }, 'foreign');
  assert.ok(
    out.lines.every((line) => line.length < 5000 && line.endsWith('}\n')),
    'bounded',
  );
});

test('lines below the configured level are not written', () => {
  const out = new Lines();
  const log = createLogger({ destination: out, level: 'warn' });
  log.info('no');
  log.error('yes');
  assert.is(out.lines.length, 1);
});

test('no credential reaches the log, whatever object contains it', () => {
  const out = new Lines();
  const log = createLogger({ destination: out });
  log.info({ api_key: 'CANARY' }, 'top');
  log.info(
    { provider: { apiKey: 'CANARY' }, headers: { authorization: 'Bearer CANARY', 'x-api-key': 'CANARY' } },
    'one',
  );
  log.info({ request: { headers: { Authorization: 'CANARY', cookie: 'CANARY' } } }, 'two');
  assert.is(out.lines.length, 3);
  for (const line of out.lines) {
    assert.not.match(line, 'CANARY');
    assert.match(line, '[redacted]');
  }
});

test('the texts of an error are truncated, wherever it comes from', () => {
  const long = 'x'.repeat(300_000);
  const error = new SvcError('NOT_FOUND', long, { hint: long, quote: long, param: long });
  for (const each of [error, SvcError.fromRecord({ code: 'INTERNAL', message: long, hint: long, param: long })]) {
    const { message, hint = '', param = '' } = each.toRecord();
    assert.ok(message.length <= 2 * 1024 + 2 && hint.length <= 1024 && param.length <= 256);
    assert.match(message, /x…/);
  }
});

test('an error is logged with code and cause; text that V8 failed to parse is not quoted', () => {
  const out = new Lines();
  const log = createLogger({ destination: out });
  let cause: unknown;
  try {
    JSON.parse('CANARY');
  } catch (error) {
    cause = error;
  }
  log.error({ err: new SvcError('BUSY', 'too many', { cause }) }, 'refused');
  assert.not.match(out.lines[0] ?? '', 'CANARY');
  const err = out.last['err'] as Record<string, unknown>;
  assert.is(err['code'], 'BUSY');
  assert.is(err['message'], 'too many');
  assert.is((err['cause'] as Record<string, unknown>)['type'], 'SyntaxError');
  log.error({ err: new TypeError('a bug') }, 'broke');
  assert.match(String((out.last['err'] as Record<string, unknown>)['stack']), 'log.test.ts');
});

const scratch = mkdtempSync(join(tmpdir(), 'svc-log-'));
test.after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

test('stderr gets JSON lines, or one-liners when pretty', async () => {
  const log = fileURLToPath(new URL('../../src/log/log.ts', import.meta.url));
  const program = `import(${JSON.stringify(log)}).then(({ createLogger, StderrLog }) => {
    createLogger().info('plain');
    createLogger({ destination: new StderrLog({ colour: false }) }).info({ n: 1 }, 'pretty');
    process.exit(0);
  });`;
  const { stderr, stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', '-e', program]);
  assert.is(stdout, '');
  const [json, pretty] = stderr.trimEnd().split('\n');
  assert.is((JSON.parse(json ?? '') as { msg: string }).msg, 'plain');
  assert.match(pretty ?? '', /^\d\d:\d\d:\d\d\.\d\d\d INFO  pretty n=1$/);
});

test('lines logged before process.exit are in the file', async () => {
  const path = join(scratch, 'exit.log');
  const source = (name: string): string =>
    JSON.stringify(fileURLToPath(new URL(`../../src/log/${name}.ts`, import.meta.url)));
  const program = `Promise.all([import(${source('log')}), import(${source('log-file')})]).then(([{ createLogger }, { LogFile }]) => {
    const file = new LogFile(${JSON.stringify(path)});
    const log = createLogger({ destination: file });
    for (let i = 0; i < 5000; i++) log.info({ i }, 'line');
    setTimeout(() => {
      for (let i = 5000; i < 10000; i++) log.info({ i }, 'line');
      file.flushSync();
      process.exit(0);
    }, 5);
  });`;
  await promisify(execFile)(process.execPath, ['--import', 'tsx', '-e', program]);
  const numbers = readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { i: number }).i);
  assert.equal(
    numbers,
    Array.from({ length: 10_000 }, (_, i) => i),
  );
});

test.run();
