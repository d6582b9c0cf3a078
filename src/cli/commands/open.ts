/** `svc open`: the console, in the browser of this desktop, signed in by a link that works once. */
import { ControlClient } from '../../client/control-client.ts';
import { resolvePaths } from '../../home/paths.ts';
import { hasDisplay, openInBrowser } from '../machine/browser.ts';
import { ensureServing } from '../machine/daemon.ts';
import { routingFlags, type Run, type Spec } from '../spec.ts';
import { say } from '../terminal/output.ts';
import { printValue } from '../terminal/result.ts';

export const spec = {
  summary: 'Open the console in a browser',
  detail: [
    'The link signs one browser in, as an administrator, for 12 hours. It works once, within a minute. Without a display, and over SSH, it is printed instead. Starts the daemon if none is running.',
  ],
  flags: {
    print: { kind: 'switch', summary: 'print the link; do not open a browser' },
    json: { kind: 'switch', summary: 'print the link as JSON; do not open a browser' },
    'no-start': routingFlags['no-start'],
  },
  examples: ['svc open', 'svc open --print'],
} as const satisfies Spec;

export const run: Run<typeof spec> = async ({ print: isPrinted, json, ...flags }) => {
  const paths = resolvePaths();
  if (!flags['no-start']) await ensureServing(paths, json);
  const opens = !isPrinted && !json && hasDisplay();
  const { url, file } = await new ControlClient(paths.socketPath).consoleLink(opens);
  if (file !== null && (await openInBrowser(file))) {
    say('opening the console in your browser; if it does not appear, open this link, which works once:');
    say(url);
    return 0;
  }
  if (!isPrinted && !json) say('open this link in a browser, within a minute; it works once:');
  printValue(json, { url }, url);
  return 0;
};
