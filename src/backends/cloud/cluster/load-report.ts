/** What servers tell of their load on a page for Prometheus, under the names of vLLM, SGLang and svc. */

const WAITING = /^(?:vllm:num_requests_waiting|sglang:num_queue_reqs|svc_requests_waiting)(?:\{[^}\n]*\})? (\S+)/gm;
const RUNNING = /^(?:vllm:num_requests_running|sglang:num_running_reqs|svc_requests_active)(?:\{[^}\n]*\})? (\S+)/gm;

/** Requests that wait or run there, of all its clients. null: the page does not tell. */
export function requestsOn(page: string): number | null {
  const [waiting, running] = [sum(page, WAITING), sum(page, RUNNING)];
  return waiting === null || running === null ? null : waiting + running;
}

/** svc may tell the same under two names: those of one family only are added. */
function sum(page: string, pattern: RegExp): number | null {
  const families = new Map<string, number>();
  for (const [line, value] of page.matchAll(pattern)) {
    const family = /^[a-z]+/.exec(line)?.[0] ?? '';
    const count = Number(value);
    if (Number.isFinite(count)) families.set(family, (families.get(family) ?? 0) + count);
  }
  return families.size === 0 ? null : Math.max(...families.values());
}
