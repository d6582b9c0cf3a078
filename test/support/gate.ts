/** An event that a test makes happen when it is due, in place of a time that stands for it. */
export interface Gate {
  /** Resolves once it is open. */
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
