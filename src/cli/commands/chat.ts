/**
 * `svc chat`: every turn sends the whole conversation. It is kept only in memory, unless `history.enabled` is set: a
 * file exposes prompts to anyone who can read the disk.
 *
 * Ctrl-C stops the answer in the engine and keeps the chat. The text received so far stays in the conversation,
 * because the user has read it; a failed turn does not.
 */
import { ControlClient } from '../../client/control-client.ts';
import { resolvePaths, type Paths } from '../../home/paths.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { GenerateResult, Message } from '../../protocol/generate.ts';
import { suggest } from '../../protocol/suggest.ts';
import { receive, requestOf, routeOf, isFull, sayRepeated, sayTruncated } from '../asking/answer.ts';
import { answerFlags, modelFlag, rawFlag, routingFlags, systemFlag, type Flags, type Run, type Spec } from '../spec.ts';
import { ensureServing } from '../machine/daemon.ts';
import { definitions } from '../terminal/layout.ts';
import { introduceBuiltin } from '../asking/introduce.ts';
import { namingPull, offeringPull } from '../asking/offer-pull.ts';
import { KeptConversation, openHistory } from '../machine/history.ts';
import { DEFAULT_NAME } from '../../protocol/model/named.ts';
import { err, report, say, sayMore } from '../terminal/output.ts';
import { openTurns, type Turns } from '../asking/turns.ts';
import { openWriter } from '../asking/writer.ts';

const SLASH_COMMANDS = {
  '/help': 'show this help',
  '/model NAME': 'switch to another model; without a name, show the current one',
  '/clear': 'clear the conversation',
  '/exit': 'leave, as Ctrl-D does',
  '"""': 'begin and end a turn of several lines',
} as const;

export const spec = {
  summary: 'Chat with a model, turn by turn',
  detail: [
    'On a terminal: Ctrl-C stops the answer, Ctrl-D or /exit leaves, /help lists the commands. From a pipe, every line is a turn.',
    'The conversation is kept in memory only, unless history.enabled is set.',
  ],
  flags: { model: modelFlag, system: systemFlag, raw: rawFlag, ...answerFlags, ...routingFlags },
  insteadOfJson: 'ask one prompt: svc run --json "…"; --messages FILE gives it a conversation',
  examples: ['svc chat', 'svc chat -m qwen -s "Answer briefly"', "printf 'Hello\\nAnd again\\n' | svc chat"],
} as const satisfies Spec;

export const run: Run<typeof spec> = async (flags) => {
  routeOf(flags);
  const paths = resolvePaths();
  const chat = new Chat(paths, flags, new KeptConversation(openHistory()));
  await chat.connect();
  const { model } = flags;
  if (model !== undefined) await offeringPull(model, { json: false }, () => chat.useModel(model));
  if (flags.provider !== undefined || flags.cloud) {
    const { ensureKey } = await import('../asking/provider-key.ts');
    await ensureKey(new ControlClient(paths.socketPath), paths, flags);
  }
  const turns = openTurns(() => {
    chat.interrupt();
  });
  try {
    if (turns.isTerminal) say(`chatting with ${await chat.modelInUse()}; /help lists the commands, Ctrl-D leaves`);
    await converse(chat, turns, turns.isTerminal);
  } finally {
    turns.close();
  }
};

/** On a terminal an error is shown and the chat continues; from a pipe it ends the chat. */
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
  readonly #flags: Flags<typeof spec>;
  readonly #client: ControlClient;
  #model: string | undefined;
  #messages: Message[] = [];
  #answering: AbortController | undefined;
  readonly #kept: KeptConversation;

  constructor(paths: Paths, flags: Flags<typeof spec>, kept: KeptConversation) {
    this.#kept = kept;
    this.#paths = paths;
    this.#flags = flags;
    this.#client = new ControlClient(paths.socketPath);
  }

  /** Called before every turn, so that the chat survives a daemon that has ended meanwhile. */
  async connect(): Promise<void> {
    if (this.#flags['no-start']) await this.#client.ready();
    else await ensureServing(this.#paths, false);
  }

  interrupt(): void {
    this.#answering?.abort();
  }

  async modelInUse(): Promise<string> {
    if (this.#model !== undefined && this.#model !== DEFAULT_NAME) return this.#model;
    if (routeOf(this.#flags) !== undefined && !this.#flags.local)
      return this.#flags.provider === undefined
        ? 'the default cloud provider'
        : `the default model of ${this.#flags.provider}`;
    return (await this.#client.models()).find((model) => model.default)?.id ?? 'the default model';
  }

  /**
   * Sends a turn and writes its answer. Throws the error that ended the answer; the turn is then dropped from the
   * conversation, unless the user interrupted an answer that had text.
   */
  async say(turn: string): Promise<void> {
    const controller = new AbortController();
    this.#answering = controller;
    const { system } = this.#flags;
    const asked: Message = { role: 'user', content: turn };
    const before: Message[] = system === undefined ? [] : [{ role: 'system', content: system }];
    const request = requestOf(this.#flags, this.#model, [...before, ...this.#messages, asked]);
    let result: GenerateResult;
    let text = '';
    const writer = await openWriter(this.#flags.raw, this.#flags.raw);
    const keep = async (answered: GenerateResult | null): Promise<void> => {
      this.#messages.push(asked, { role: 'assistant', content: text });
      await this.#kept.keep([...before, ...this.#messages], answered);
    };
    try {
      await this.connect();
      result = await receive(this.#client, request, {
        signal: controller.signal,
        onText: (more) => {
          text += more;
          writer.onText(more);
        },
        onReasoning: writer.onReasoning,
      });
      await keep(result);
      sayTruncated(result);
      sayRepeated(result);
      if (isFull(result) && this.#flags['max-tokens'] === undefined) {
        say(
          "the answer is cut off: the model's context, or the max_tokens of its settings, is full; /clear starts over",
        );
      }
    } catch (error) {
      if (controller.signal.aborted && text !== '') await keep(null);
      if (SvcError.from(error).code === 'CONTEXT_OVERFLOW')
        say('the conversation is too long: /clear starts over, `svc chat --truncate` drops its oldest turns');
      throw error;
    } finally {
      this.#answering = undefined;
      writer.end();
    }
    introduceBuiltin(result, this.#paths);
  }

  async obey(command: string, argument: string): Promise<void> {
    switch (command) {
      case '/help':
        sayMore(definitions(Object.entries(SLASH_COMMANDS), err.tableColumns));
        return;
      case '/clear':
        this.#messages = [];
        this.#kept.restart();
        say('the conversation was cleared');
        return;
      case '/model':
        if (argument !== '') await namingPull(argument, () => this.useModel(argument));
        say(`chatting with ${await this.modelInUse()}`);
        return;
      default: {
        const likely = suggest(command, ['/help', '/model', '/clear', '/exit']);
        throw new SvcError('INVALID_REQUEST', `unknown command ${command}`, {
          hint: `${likely === undefined ? 'see /help.' : `did you mean ${likely}?`} To send a turn that begins with a slash, put a space before it.`,
        });
      }
    }
  }

  /** Checks the name of a local model now. @throws SvcError MODEL_NOT_FOUND, MODEL_INVALID */
  async useModel(typed: string): Promise<void> {
    if (!(await this.#isElsewhere(typed))) {
      const { findModel } = await import('../machine/models.ts');
      await findModel(typed);
    }
    this.#model = typed;
  }

  /** True for a name of a policy or a provider, which checks it when it is asked, and for the default model. */
  async #isElsewhere(name: string): Promise<boolean> {
    const route = routeOf(this.#flags);
    if (name === DEFAULT_NAME || (route !== undefined && route !== 'local')) return true;
    if (route === 'local') return false;
    const [listed, providers] = await Promise.all([this.#client.listed(), this.#client.providers()]);
    return (
      listed.some(({ id, kind }) => id === name && kind !== 'local') ||
      providers.some((provider) => provider.name !== 'local' && name.startsWith(`${provider.name}/`))
    );
  }
}
