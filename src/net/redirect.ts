/** Where an answer over HTTP leads. */

interface Answered {
  readonly status: number;
  /** Of a response header, in lower case. */
  header(name: string): string | undefined;
}

const REDIRECTS = [301, 302, 303, 307, 308];

/**
 * null: it is no redirect. Throws what `refuse` makes of one to what is no URL of http or https, or one
 * with a name and a password, which nobody here has asked for.
 * @param from the URL that was asked
 */
export function redirectOf({ status, header }: Answered, from: URL, refuse: () => Error): URL | null {
  const location = header('location');
  if (location === undefined || !REDIRECTS.includes(status)) return null;
  const to = URL.canParse(location, from.href) ? new URL(location, from.href) : null;
  if (to === null || !/^https?:$/.test(to.protocol) || to.username !== '' || to.password !== '') throw refuse();
  return to;
}
