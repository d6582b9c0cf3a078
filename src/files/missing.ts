/** For `catch`: returns `value` where the file system has no such entry, and throws any other error. */
export function ifMissing<Value>(value: Value): (error: unknown) => Value {
  return (error) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return value;
    throw error;
  };
}
