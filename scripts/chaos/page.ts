/** The rows, as lines of a terminal and as docs/reliability.md. */
import { cpus, loadavg, release, totalmem, type as system } from 'node:os';
import type { Row } from './judge.ts';

const GIB = 1024 ** 3;

export function describe({ fault, verdict, problems, recoverySeconds, requests }: Row): string {
  const heading = { passed: 'ok     ', failed: 'FAIL   ', skipped: 'skipped' }[verdict];
  const figures = [
    ...(recoverySeconds === null ? [] : [`${recoverySeconds.toFixed(2)} s`]),
    ...(requests.sent === 0
      ? []
      : [`${requests.sent} requests, ${failures(requests)} failed, ${requests.lost.length} lost`]),
  ];
  const after = figures.length === 0 ? '' : ` (${figures.join('; ')})`;
  return [`${heading} ${fault.name}${after}`, ...problems.map((problem) => `        ${problem}`)].join('\n');
}

/** The whole of docs/reliability.md. */
export function page(rows: readonly Row[], seconds: number): string {
  const count = (verdict: Row['verdict']): string => String(rows.filter((row) => row.verdict === verdict).length);
  const [processor] = cpus();
  const machine = [
    `${String(cpus().length)} × ${processor?.model ?? 'an unknown processor'}`,
    `${String(Math.round(totalmem() / GIB))} GiB`,
    `${system()} ${release()}`,
    `Node ${process.version}`,
    `load average ${(loadavg()[0] ?? 0).toFixed(1)} at the end`,
  ];
  return `${INTRODUCTION}
Measured on ${machine.join(', ')}, in ${String(Math.round(seconds))} s: ${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} could not be planted there.

| fault | how it was planted | what the user saw | mended | seconds to recovery | requests | ended with an error | lost | verdict |
|---|---|---|---|---|---|---|---|---|
${rows.map(line).join('\n')}
`;
}

const INTRODUCTION = `# Reliability

What happens to svc, and to those who use it, when something goes wrong. \`npm run chaos\` plants every fault below into a real daemon with real
engine processes, real models and real sockets, judges what must hold, and writes this page; nothing on it is written by hand. \`npm run
chaos -- --only PATTERN\` plants those whose name matches PATTERN, and writes nothing. It ends with 1 when something does not hold.

Each fault has a daemon, a home and ports of its own, and is planted from outside, as a person, another program or the machine would do it.
After it the daemon has to be READY, and of the home's processes none may be left once it is stopped.

| column | meaning |
|---|---|
| what the user saw | the answer, or the error as it was told, of whoever the fault befell; compared with what the fault declares |
| mended | who ended it: svc by itself, or a person, and with what |
| seconds to recovery | from planting (from mending, where a person has to) until a new request is answered; asked anew every 20 ms, so 0.01 means that nothing was noticed |
| requests | sent while the fault lasted, by the client that it befell and, where there were others, by three that ask all the while |
| ended with an error | of these, refused or ended with an error that says what happened; only errors that the fault declares may come |
| lost | of these, ended with neither an answer nor an error |
| verdict | passed when all that the fault declares held, within its time |

Two things cannot be saved. When the daemon itself is killed, whatever it was answering is cut off; nothing is left that could tell (and when it stops,
a connection that the kernel has taken and the daemon has not may be reset). And an engine that
dies after the first words of an answer ends that answer with an error, because a second try might say something else; before the first words it
is tried again without anybody noticing.
`;

function line({ fault, verdict, problems, saw, recoverySeconds, requests }: Row): string {
  const measured =
    verdict === 'skipped'
      ? ['–', fault.mended, '–', '–', '–', '–']
      : [
          saw === '' ? '–' : saw,
          fault.mended,
          recoverySeconds === null ? '–' : recoverySeconds.toFixed(2),
          ...(requests.sent === 0
            ? ['–', '–', '–']
            : [requests.sent, failures(requests), requests.lost.length].map(String)),
        ];
  const why = problems.length === 0 ? '' : `: ${problems.join('; ')}`;
  const cells = [fault.name, fault.planted, ...measured, `${verdict}${why}`];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function failures({ failed }: Row['requests']): number {
  return [...failed.values()].reduce((sum, count) => sum + count, 0);
}
