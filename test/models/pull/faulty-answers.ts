/** Answers of a faulty hub and its store. */
import type { ServerResponse } from 'node:http';
import { waitFor } from '../../support/wait.ts';
import type { BytesRequest, FakeHub } from './fake-hub.ts';
import { SMALL } from './pull-support.ts';

export function sendHead({ res, from, to, content }: BytesRequest, more = {}): void {
  const range = `bytes ${from}-${to - 1}/${content.length}`;
  res.writeHead(206, { ...more, 'content-length': String(to - from), 'content-range': range });
}

/** The store closes the connection in the middle of every third answer. */
export const breakOff =
  (hub: FakeHub, isReset: boolean): FakeHub['onBytes'] =>
  async (request) => {
    if (request.number % 3 !== 0) return false;
    const { res, from, to, content } = request;
    sendHead(request, { etag: hub.etag(content) });
    const { fetched } = hub;
    await hub.write(res, content.subarray(from, from + Math.floor((to - from) / 2)));
    await waitFor('the client to read', () => hub.fetched > fetched);
    if (isReset) res.socket?.resetAndDestroy();
    else res.destroy();
    return true;
  };

export const once = (answer: FakeHub['onBytes']): FakeHub['onBytes'] => {
  let isDone = false;
  return (request) => {
    if (isDone) return false;
    isDone = true;
    return answer(request);
  };
};

/** `rounds` times, holds requests until all connections of `SMALL` have one, and then answers them alike. */
export const allAlike = (rounds: number, answer: (res: ServerResponse) => void): FakeHub['onBytes'] => {
  let held: ServerResponse[] = [];
  let round = 0;
  return ({ number, res }) => {
    if (number === 1 || round === rounds) return false;
    held = [...held.filter(({ destroyed }) => !destroyed), res];
    if (held.length < SMALL.connections) return true;
    for (const each of held.splice(0)) answer(each);
    round += 1;
    return true;
  };
};

/** The store ignores Range headers. */
export const sendsTheWhole = (hub: FakeHub): void => {
  hub.onBytes = async (request) => {
    delete request.req.headers.range;
    await hub.send({ ...request, from: 0, to: request.content.length });
    return true;
  };
};

/** With such an ETag no request has an If-Range, after which a whole file would be a right answer. */
export const hasWeakEtag = (hub: FakeHub): void => {
  hub.etag = () => 'W/"weak"';
};

/** The store ignores the Range header, and cuts its answer short. */
export const sendsTheStart =
  (hub: FakeHub, bytes: number): FakeHub['onBytes'] =>
  async ({ res, content }) => {
    res.writeHead(200, { 'content-length': String(content.length) });
    await hub.write(res, content.subarray(0, bytes));
    res.socket?.end();
    return true;
  };

export const status =
  (code: number, headers: Record<string, string> = {}): FakeHub['onBytes'] =>
  ({ res }) => {
    res.writeHead(code, headers).end();
    return true;
  };

/** Cuts off the first pull after some parts. */
export const cutOff = (hub: FakeHub): void => {
  hub.onBytes = ({ number, res }) => {
    if (number <= 4) return false;
    res.writeHead(400).end();
    return true;
  };
};

export const redirect =
  (to: (hub: FakeHub) => string) =>
  (hub: FakeHub): void => {
    hub.onHub = (req, res) => {
      if (req.url?.includes('/resolve/') !== true) return false;
      res.writeHead(302, { location: to(hub) }).end();
      return true;
    };
  };
