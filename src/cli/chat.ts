/**
 * A conversation: every turn carries all that was said before. It is kept in memory and nowhere else;
 * a history on disk would hold people's prompts for whoever reads the disk.
 *
 * Ctrl-C stops the answer in the engine and keeps the chat; what had come of the answer stays part of
 * the conversation, since the person has read it. A turn that failed does not.
 */
import { Client } from '../client/client.ts';
import { resolvePaths, type Paths } from '../config/paths.ts';
import { SvcError } from '../protocol/errors.ts';
import type { GenerateResult, Message } from '../protocol/generate.ts';
import { suggest } from '../protocol/suggest.ts';
import { receive, requestOf, routeOf, sayTruncated } from './answer.ts';
import type { Flags, Run } from './commands.ts';
import { ensureServing } from './daemon.ts';
import { table } from './format.ts';
import { introduceBuiltin } from './introduce.ts';
import { modelName } from './model-name.ts';
import { report, say, sayMore, write } from './output.ts';
import { openTurns, type Turns } from './turns.ts';

const SLASH_COMMANDS = {
  '/help': 'show this',
  '/model NAME': 'go on with another model; without a name, tell which one answers',
  '/clear': 'forget the conversation',
  '/exit': 'leave; so does Ctrl-D',
  '"""': 'begins and ends a turn of several lines',
} as const;

export const run: Run<'chat'> = async (flags) => {
  routeOf(flags);
  const paths = resolvePaths();
  const chat = new Chat(paths, flags);
  await chat.connect();
  if (flags.provider !== undefined || flags.cloud) {
    const { ensureKey } = await import('./provider-key.ts');
    await ensureKey(new Client(paths.socketPath), paths, flags);
  }
  const turns = openTurns(() => {
    chat.interrupt();
  });
  try {
    if (turns.isTerminal) say(`talking with ${await chat.modelInUse()}; /help tells more, Ctrl-D leaves`);
    await converse(chat, turns, turns.isTerminal);
  } finally {
    turns.close();
  }
  return 0;
};

/** On a terminal what goes wrong is said, and the chat goes on; in a pipe it is the end. */
async function converse(chat: Chat, turns: Turns, isTerminal: boolean): Promise<void> {
  for (let turn = await turns.next(); turn !== undefined; turn = await turns.next()) {
    if (turn.trim() === '') continue;
    try {
      const [, command, rest = ''] = /^(\/[a-z]+)(?:[ \t]+([^ \t].*)?)?$/i.exec(turn.trimEnd()) ?? [];
      if (command === '/exit') return;
      if (command === undefined) await chat.say(turn);
      else await chat.obey(command, rest.trim());
    } catch (error) {
      if (!isTerminal) throw error;
      if (SvcError.from(error).code !== 'CANCELLED') report(error, false);
    }
  }
}

class Chat {
  readonly #paths: Paths;
  readonly #flags: Flags<'chat'>;
  readonly #client: Client;
  #model: string | undefined;
  #messages: Message[] = [];
  #answering: AbortController | undefined;

  constructor(paths: Paths, flags: Flags<'chat'>) {
    this.#paths = paths;
    this.#flags = flags;
    this.#model = flags.model;
    this.#client = new Client(paths.socketPath);
  }

  /** Before every turn: a daemon that ended meanwhile takes nothing of the conversation with it. */
  async connect(): Promise<void> {
    if (this.#flags['no-start']) await this.#client.ready();
    else await ensureServing(this.#paths, false);
  }

  interrupt(): void {
    this.#answering?.abort();
  }

  async modelInUse(): Promise<string> {
    if (this.#model !== undefined) return this.#model;
    if (routeOf(this.#flags) !== undefined && !this.#flags.local) return 'the default model of its provider';
    return (await this.#client.models()).find((model) => model.default)?.id ?? 'the default model';
  }

  /** Throws what the answer ended with; the turn is then not part of the conversation, unless words came of it. */
  async say(turn: string): Promise<void> {
    const controller = new AbortController();
    this.#answering = controller;
    const { system } = this.#flags;
    const asked: Message = { role: 'user', content: turn };
    const before: Message[] = system === undefined ? [] : [{ role: 'system', content: system }];
    const request = requestOf(this.#flags, this.#model, [...before, ...this.#messages, asked]);
    let result: GenerateResult;
    let text = '';
    const keep = (): void => {
      this.#messages.push(asked, { role: 'assistant', content: text });
    };
    try {
      await this.connect();
      result = await receive(this.#client, request, {
        signal: controller.signal,
        onText: (more) => {
          text += more;
          write(more);
        },
      });
      keep();
      sayTruncated(result);
      if (result.finish_reason === 'length' && this.#flags['max-tokens'] === undefined) {
        say('the answer is cut off: the context of the model is full; /clear begins anew');
      }
    } catch (error) {
      if (controller.signal.aborted && text !== '') keep();
      if (SvcError.from(error).code === 'CONTEXT_OVERFLOW')
        say('the conversation is too long: /clear begins anew, and `svc chat --truncate` lets go of its oldest turns');
      throw error;
    } finally {
      this.#answering = undefined;
      if (text !== '' && !text.endsWith('\n')) write('\n');
    }
    introduceBuiltin(result, this.#paths);
  }

  async obey(command: string, argument: string): Promise<void> {
    switch (command) {
      case '/help':
        sayMore(table(Object.entries(SLASH_COMMANDS)));
        return;
      case '/clear':
        this.#messages = [];
        say('the conversation is forgotten');
        return;
      case '/model':
        if (argument !== '') await this.#useModel(argument);
        say(`talking with ${await this.modelInUse()}`);
        return;
      default: {
        const likely = suggest(command, ['/help', '/model', '/clear', '/exit']);
        throw new SvcError('INVALID_REQUEST', `there is no ${command}`, {
          hint: `${likely === undefined ? 'see /help' : `did you mean ${likely}?`} A turn may begin with a slash after a blank.`,
        });
      }
    }
  }

  /** A local model is looked for now; what a provider has, it tells itself when it is asked. */
  async #useModel(typed: string): Promise<void> {
    const name = modelName(typed);
    const route = routeOf(this.#flags);
    if (!name.startsWith('file:') && (route === undefined || route === 'local')) {
      const known = (await this.#client.models()).flatMap(({ id, aliases }) => [id, ...aliases]);
      if (!known.includes(name)) {
        const likely = suggest(name, known);
        throw new SvcError('MODEL_NOT_FOUND', `no model ${JSON.stringify(typed.slice(0, 80))}`, {
          hint: likely === undefined ? 'see `svc model list`' : `did you mean "${likely}"?`,
        });
      }
    }
    this.#model = typed;
  }
}
