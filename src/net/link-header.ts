/** Next page of a `Link: <https://…?page=2>; rel="next", <…>; rel="last"` header. undefined: none. */
export function nextLink(header: string): string | undefined {
  let at = 0;
  for (;;) {
    const open = header.indexOf('<', at);
    const close = open === -1 ? -1 : header.indexOf('>', open);
    if (close === -1) return undefined;
    // The parameters of a link end where the next link begins.
    const following = header.indexOf('<', close);
    const end = following === -1 ? header.length : following;
    const isNext = header
      .slice(close + 1, end)
      .split(/[;,]/)
      .some((parameter) => ['rel="next"', 'rel=next'].includes(parameter.trim().toLowerCase()));
    if (isNext) return header.slice(open + 1, close);
    at = end;
  }
}
