/** HTTP redirects. */

interface Answered {
  readonly status: number;
  /** `name`: a response header in lower case. */
  header(name: string): string | undefined;
}

const REDIRECTS = [301, 302, 303, 307, 308];

/**
 * Target of a redirect; null: no redirect. Throws `refuse()` if the target is not http(s) or carries credentials.
 * @param from the requested URL
 */
export function redirectOf({ status, header }: Answered, from: URL, refuse: () => Error): URL | null {
  const location = header('location');
  if (location === undefined || !REDIRECTS.includes(status)) return null;
  const to = URL.canParse(location, from.href) ? new URL(location, from.href) : null;
  if (to === null || !/^https?:$/.test(to.protocol) || to.username !== '' || to.password !== '') throw refuse();
  return to;
}
