/** Limits of the gRPC listener. docs/security.md has them too. */

export const LIMITS = {
  connections: 1024,
  /** Time from the connection to its first bytes. */
  prefaceMs: 10_000,
  /** Idle time after which a connection without a call is closed; clients reconnect when they need to. */
  idleMs: 300_000,
  /** Concurrent calls per connection. */
  streams: 64,
  /** Bytes of one request. */
  messageBytes: 4 * 1024 * 1024,
  /** Requests that may be arriving at the same time, on all connections. */
  arriving: 64,
  /** Time until a request must be complete. */
  requestMs: 120_000,
  /** Longest wait of a call for a client that does not read. */
  stallMs: 120_000,
  pingEveryMs: 30_000,
  /** Time until a ping must be answered. */
  pingMs: 10_000,
  /** Limit of the memory of all requests, from their arrival until they are answered. */
  requestsBytes: 256 * 1024 * 1024,
  /** Bytes of all answers that have not been sent. */
  answersBytes: 256 * 1024 * 1024,
};
export type GrpcLimits = Readonly<typeof LIMITS>;
