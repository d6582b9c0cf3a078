/** Reads a server's load from its Prometheus page, by the metric names of vLLM, SGLang and svc. */

const WAITING = /^(?:vllm:num_requests_waiting|sglang:num_queue_reqs|svc_requests_waiting)(?:\{[^}\n]*\})? (\S+)/gm;
const RUNNING = /^(?:vllm:num_requests_running|sglang:num_running_reqs|svc_requests_active)(?:\{[^}\n]*\})? (\S+)/gm;

/** Waiting and running requests of all clients there. null: the page does not report them. */
export function requestsOn(page: string): number | null {
  const [waiting, running] = [sum(page, WAITING), sum(page, RUNNING)];
  return waiting === null || running === null ? null : waiting + running;
}

/** A server may report the same count under two families of names; only counts of one family are added. */
function sum(page: string, pattern: RegExp): number | null {
  const families = new Map<string, number>();
  for (const [line, value] of page.matchAll(pattern)) {
    const family = /^[a-z]+/.exec(line)?.[0] ?? '';
    const count = Number(value);
    if (Number.isFinite(count)) families.set(family, (families.get(family) ?? 0) + count);
  }
  return families.size === 0 ? null : Math.max(...families.values());
}
