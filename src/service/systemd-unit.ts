/**
 * The user units of systemd: the daemon, and the socket of its HTTP address.
 *
 * The socket exists before the daemon does, so that a client that comes early waits instead of being
 * refused. The control socket is not among them: then `svc status` would start what it asks about.
 *
 * The sandbox takes away all that a daemon which computes, listens and calls out does not need. It
 * leaves on purpose: devices (a GPU), /tmp and the home to read (a model may lie anywhere), all of
 * /proc that tells how much memory is free, and memory that is written and then executed, which is
 * how V8 compiles.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { variable } from '../config/environment.ts';
import type { ServiceDefinition } from './definition.ts';

export const SERVICE_UNIT = 'svc.service';
export const SOCKET_UNIT = 'svc.socket';

/** Longer than the drain that a signal grants, and what follows it. */
const STOP_SECONDS = 45;
/** A large model on a slow disk. */
const START_SECONDS = 600;
/** Of silence, after which the event loop is taken for stuck. */
const WATCHDOG_SECONDS = 60;
/** Starting again does not mend a configuration. */
const CONFIG_INVALID_EXIT = 78;
/** systemd leaves sections of this prefix to others. */
const OWN_SECTION = 'X-svc';

export function serviceUnit({ command, environment, writable, socket, address }: ServiceDefinition): string {
  const passedOn = address === null ? [] : [`Requires=${SOCKET_UNIT}`, `After=${SOCKET_UNIT}`];
  return lines(
    '[Unit]',
    'Description=svc, the local AI execution daemon',
    ...passedOn,
    '',
    '[Service]',
    'Type=notify',
    'NotifyAccess=main',
    `ExecStart=${command.map(quote).join(' ')}`,
    'ExecReload=/bin/kill -HUP $MAINPID',
    ...Object.entries(environment).map(([name, value]) => `Environment=${quote(`${name}=${value}`)}`),
    'Restart=on-failure',
    'RestartSec=1',
    `RestartPreventExitStatus=${String(CONFIG_INVALID_EXIT)}`,
    `TimeoutStartSec=${String(START_SECONDS)}`,
    `TimeoutStopSec=${String(STOP_SECONDS)}`,
    `WatchdogSec=${String(WATCHDOG_SECONDS)}`,
    // The daemon alone hears the signal: it drains, and then ends its engines.
    'KillMode=mixed',
    'OOMPolicy=continue',
    'UMask=0077',
    // A core would hold prompts and keys.
    'LimitCORE=0',
    '',
    '# What it may not do.',
    'NoNewPrivileges=yes',
    'PrivateUsers=yes',
    'PrivateMounts=yes',
    'ProtectSystem=strict',
    'ProtectHome=read-only',
    ...writable.map((directory) => `ReadWritePaths=${quote(`-${directory}`)}`),
    'ProtectProc=invisible',
    'ProtectClock=yes',
    'ProtectHostname=yes',
    'ProtectKernelLogs=yes',
    'ProtectKernelModules=yes',
    'ProtectKernelTunables=yes',
    'ProtectControlGroups=yes',
    'RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6',
    'RestrictNamespaces=yes',
    'RestrictRealtime=yes',
    'RestrictSUIDSGID=yes',
    'LockPersonality=yes',
    'CapabilityBoundingSet=',
    'SystemCallArchitectures=native',
    'SystemCallFilter=@system-service',
    'SystemCallFilter=~@privileged @resources',
    // By these an engine process gives up more; a group @sandbox is not known everywhere.
    'SystemCallFilter=seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self',
    // A file that is replaced keeps its owner.
    'SystemCallFilter=@chown',
    'SystemCallErrorNumber=EPERM',
    '',
    '[Install]',
    'WantedBy=default.target',
    '',
    `[${OWN_SECTION}]`,
    `Socket=${socket}`,
  );
}

/** Whether the daemon of `unit`, the text of a file, is the one of this control socket. */
export function servesSocket(unit: string, socketPath: string): boolean {
  return unit.endsWith(`\n[${OWN_SECTION}]\nSocket=${socketPath}\n`);
}

/** Where this user's units lie. */
export function unitPath(unit: string): string {
  return join(variable('XDG_CONFIG_HOME') ?? join(homedir(), '.config'), 'systemd', 'user', unit);
}

/** REQUIRES: there is an address. */
export function socketUnit(address: string): string {
  return lines(
    '[Unit]',
    'Description=The HTTP address of svc',
    '',
    '[Socket]',
    `ListenStream=${address}`,
    'FileDescriptorName=http',
    'NoDelay=yes',
    '',
    '[Install]',
    'WantedBy=sockets.target',
  );
}

function lines(...all: readonly string[]): string {
  return `${all.join('\n')}\n`;
}

/** As systemd reads it back: quotes, and neither its specifiers (%) nor variables ($). */
function quote(text: string): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%').replaceAll('$', '$$$$');
  return /^[\w./:=@+,-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}
