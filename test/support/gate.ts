/** An event that a test triggers explicitly, instead of a delay. */
export interface Gate {
  /** Resolves once `open` was called. */
  readonly opened: Promise<void>;
  open(): void;
}

export function makeGate(): Gate {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return {
    opened,
    open: () => {
      open();
    },
  };
}
