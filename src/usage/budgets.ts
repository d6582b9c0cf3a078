/**
 * How much a provider may be asked in a day (UTC). Counted from the ledger, so that a restart forgets
 * nothing. Tokens are known when an answer ends: requests under way may exceed the day's tokens by what they take.
 */
import { SvcError } from '../protocol/errors.ts';
import { LedgerFile, readUsage, type AnsweredLine } from './ledger.ts';

export interface Budget {
  /** null: no bound. */
  readonly requestsPerDay: number | null;
  /** Of prompts and answers together. null: no bound. */
  readonly tokensPerDay: number | null;
}

interface Spent {
  requests: number;
  tokens: number;
}

export interface BudgetsOptions {
  /** Where the ledger lies. */
  readonly dir: string;
  /** Of a provider, as it is now. */
  budgetOf(provider: string): Budget;
  /** The ledger could not be written. Told once, and once more after it could be. */
  onFailure(error: unknown): void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export class Budgets {
  readonly #options: BudgetsOptions;
  readonly #ledger: LedgerFile;
  readonly #now: () => number;
  readonly #spent = new Map<string, Spent>();
  /** What was spent before this process, once somebody has to know. */
  #loaded: Promise<void> | null = null;
  #day: string;
  #isFailing = false;

  constructor(options: BudgetsOptions) {
    this.#options = options;
    this.#ledger = new LedgerFile(options.dir);
    this.#now = options.now ?? Date.now;
    this.#day = this.#today();
  }

  /** Called before a provider is asked. Throws BUSY when its day is used up, CANNOT_WRITE when that cannot be held. */
  async admit(provider: string): Promise<void> {
    const { requestsPerDay, tokensPerDay } = this.#options.budgetOf(provider);
    if (requestsPerDay === null && tokensPerDay === null) return;
    await (this.#loaded ??= this.#load());
    const spent = this.#of(provider);
    if (requestsPerDay !== null && spent.requests >= requestsPerDay)
      throw this.#usedUp(provider, 'requests', requestsPerDay);
    if (tokensPerDay !== null && spent.tokens >= tokensPerDay) throw this.#usedUp(provider, 'tokens', tokensPerDay);
    spent.requests += 1;
    try {
      await this.#ledger.append({ event: 'asked', at: this.#at(), provider });
    } catch (error) {
      throw new SvcError('CANNOT_WRITE', `the usage of ${provider} cannot be written down, and it has a budget`, {
        hint: 'make room on the disk of the state directory: svc doctor',
        cause: error,
      });
    }
  }

  /** Never rejects: an answer is not lost because it cannot be counted. */
  async answered(line: Omit<AnsweredLine, 'event' | 'at'>): Promise<void> {
    // Until then the file counts.
    if (this.#loaded !== null) {
      await this.#loaded;
      this.#of(line.provider).tokens += tokensOf(line);
    }
    try {
      await this.#ledger.append({ event: 'answered', at: this.#at(), ...line });
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#options.onFailure(error);
      this.#isFailing = true;
    }
  }

  async close(): Promise<void> {
    await this.#ledger.close();
  }

  async #load(): Promise<void> {
    await this.#ledger.settled();
    for await (const line of readUsage(this.#options.dir, this.#today())) {
      if (line.event === 'asked') this.#of(line.provider).requests += 1;
      else this.#of(line.provider).tokens += tokensOf(line);
    }
  }

  #of(provider: string): Spent {
    const today = this.#today();
    if (today !== this.#day) this.#spent.clear();
    this.#day = today;
    const spent = this.#spent.get(provider) ?? { requests: 0, tokens: 0 };
    this.#spent.set(provider, spent);
    return spent;
  }

  #at(): string {
    return new Date(this.#now()).toISOString();
  }

  #today(): string {
    return this.#at().slice(0, 10);
  }

  #usedUp(provider: string, what: 'requests' | 'tokens', bound: number): SvcError {
    const midnight = Date.parse(`${this.#today()}T00:00:00Z`) + 86_400_000;
    return new SvcError('BUSY', `${provider} has had its ${String(bound)} ${what} of today`, {
      hint: `wait until midnight UTC, or raise it: svc config set providers.${provider}.${what}_per_day N`,
      retryAfterSeconds: Math.ceil((midnight - this.#now()) / 1000),
    });
  }
}

function tokensOf({ input_tokens, output_tokens }: Pick<AnsweredLine, 'input_tokens' | 'output_tokens'>): number {
  return (input_tokens ?? 0) + (output_tokens ?? 0);
}
