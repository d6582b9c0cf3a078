/** Collects an answer over the control socket, complete or broken off. */
import { SvcError } from '../../src/protocol/errors.ts';
import type { GenerateRequest } from '../../src/protocol/generate.ts';
import type { DaemonProcess } from '../support/daemon.ts';

/** `end`: error code, or `finish`. */
export interface Answer {
  readonly text: string;
  readonly end: string;
}

export async function answerTo(
  daemon: DaemonProcess,
  request: Partial<GenerateRequest>,
  onText?: () => void,
): Promise<Answer> {
  let text = '';
  try {
    for await (const event of daemon.client.generate(request)) {
      if (event.type !== 'text') continue;
      text += event.text;
      onText?.();
    }
    return { text, end: 'finish' };
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return { text, end: error.code };
  }
}
