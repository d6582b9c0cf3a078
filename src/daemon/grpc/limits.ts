/** Limits of the gRPC listener. docs/security.md has them too. */

export interface GrpcLimits {
  readonly connections: number;
  /** Time from the connection to its first bytes. */
  readonly prefaceMs: number;
  /** Idle time after which a connection without a call is closed; clients reconnect when they need to. */
  readonly idleMs: number;
  /** Concurrent calls per connection. */
  readonly streams: number;
  /** Bytes of one request. */
  readonly messageBytes: number;
  /** Requests that may be arriving at the same time, on all connections. */
  readonly arriving: number;
  /** Time until a request must be complete. */
  readonly requestMs: number;
  /** Longest wait of a call for a client that does not read. */
  readonly stallMs: number;
  readonly pingEveryMs: number;
  /** Time until a ping must be answered. */
  readonly pingMs: number;
  /** Limit of the memory of all requests, from their arrival until they are answered. */
  readonly requestsBytes: number;
}

export const LIMITS: GrpcLimits = {
  connections: 1024,
  prefaceMs: 10_000,
  idleMs: 300_000,
  streams: 64,
  messageBytes: 4 * 1024 * 1024,
  arriving: 64,
  requestMs: 120_000,
  stallMs: 120_000,
  pingEveryMs: 30_000,
  pingMs: 10_000,
  requestsBytes: 256 * 1024 * 1024,
};
