/** Reads from the daemon for a view, again after a reconnection, and on demand. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { ApiError } from '../api/api-error.ts';
import { ask } from '../api/request.ts';
import { epoch } from '../state/connection.ts';

export interface AnswerState<Answer> {
  /** null: not read yet. Kept while it is read again. */
  readonly answer: Answer | null;
  readonly error: ApiError | null;
  /** Reads again; resolves when it is read. */
  refresh(): Promise<void>;
}

export function useAnswer<Answer>(path: string): AnswerState<Answer> {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const refresh = useCallback(
    async (signal?: AbortSignal) => {
      try {
        const next = await ask<Answer>(path, signal === undefined ? {} : { signal });
        setAnswer(next);
        setError(null);
      } catch (thrown) {
        const failure = ApiError.from(thrown);
        if (!failure.isCancelled) setError(failure);
      }
    },
    [path],
  );
  const round = epoch.value;
  useEffect(() => {
    const gone = new AbortController();
    void refresh(gone.signal);
    return () => gone.abort();
  }, [refresh, round]);
  return { answer, error, refresh };
}
