/** Address at which no program listens: the system gives this port to none. */
export const CLOSED_ADDRESS = '127.0.0.1:1';

/**
 * Address of this machine that no other test process uses, for ports that are bound, released and bound again. On
 * 127.0.0.1, another program may be given such a port in between.
 */
export const OWN_ADDRESS: string =
  process.platform === 'linux'
    ? ['127', 64 + ((process.pid >> 16) & 63), (process.pid >> 8) & 255, process.pid & 255].join('.')
    : '127.0.0.1';
