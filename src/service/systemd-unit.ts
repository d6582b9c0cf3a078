/**
 * The systemd units: the daemon of a user, and the socket of its HTTP address; the daemon of a system package.
 *
 * The socket exists before the daemon, so that early clients wait instead of being refused. The control socket has no
 * socket unit: otherwise `svc status` would start the daemon.
 *
 * The sandbox removes all permissions that the daemon does not need. It deliberately leaves: devices (a GPU), read
 * access to /tmp and the home (models may be anywhere), the parts of /proc that report free memory, and memory that is
 * written and then executed, which V8's compiler needs.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { variable } from '../process/environment.ts';
import type { ServiceDefinition } from './definition.ts';

export const SERVICE_UNIT = 'svc.service';
export const SOCKET_UNIT = 'svc.socket';

/** Longer than the drain after a signal and the shutdown after it. */
const STOP_SECONDS = 45;
/** Enough to load a large model from a slow disk. */
const START_SECONDS = 600;
/** Time without a notification after which the event loop counts as stuck. */
const WATCHDOG_SECONDS = 60;
/** A restart does not correct an invalid configuration. */
const CONFIG_INVALID_EXIT = 78;
/** systemd ignores sections with the prefix X-. */
const OWN_SECTION = 'X-svc';

export function serviceUnit(definition: ServiceDefinition): string {
  const { command, environment, writable, shared, socket, address } = definition;
  const passedOn = address === null ? [] : [`Requires=${SOCKET_UNIT}`, `After=${SOCKET_UNIT}`];
  return lines(
    ...unitSection(...passedOn),
    ...serviceSection(command, environment),
    'ProtectHome=read-only',
    ...runtimeDirectory(environment),
    ...[...writable, ...shared].map((directory) => `ReadWritePaths=${quote(`-${directory}`)}`),
    '',
    '[Install]',
    'WantedBy=default.target',
    '',
    `[${OWN_SECTION}]`,
    `Socket=${socket}`,
  );
}

/**
 * Without SVC_HOME the runtime directory is $XDG_RUNTIME_DIR/svc, which does not exist after a boot and which the
 * sandbox would not let the daemon make. It is kept, because a daemon that is not the service may have its socket
 * there.
 */
function runtimeDirectory(environment: Readonly<Record<string, string>>): string[] {
  if (environment['SVC_HOME'] !== undefined) return [];
  return ['RuntimeDirectory=svc', 'RuntimeDirectoryMode=0700', 'RuntimeDirectoryPreserve=yes'];
}

/** System user of the daemon of a system package, and the name of its directory in /var/lib. */
const SYSTEM_USER = 'svc';

/** Text of the unit of a system package, whose daemon has a user and a directory of its own. */
export function systemUnit({ command, environment }: Pick<ServiceDefinition, 'command' | 'environment'>): string {
  return lines(
    ...unitSection('Documentation=man:svc(1)', 'After=network.target'),
    ...serviceSection(command, environment),
    `User=${SYSTEM_USER}`,
    `StateDirectory=${SYSTEM_USER}`,
    'StateDirectoryMode=0700',
    'ProtectHome=yes',
    'PrivateTmp=yes',
    '',
    '[Install]',
    'WantedBy=multi-user.target',
  );
}

function unitSection(...more: readonly string[]): string[] {
  return ['[Unit]', 'Description=svc, the local AI execution daemon', ...more, ''];
}

function serviceSection(command: readonly string[], environment: Readonly<Record<string, string>>): string[] {
  return [
    '[Service]',
    'Type=notify',
    'NotifyAccess=main',
    `ExecStart=${quoteCommand(command)}`,
    'ExecReload=/bin/kill -HUP $MAINPID',
    ...Object.entries(environment).map(([name, value]) => `Environment=${quote(`${name}=${value}`)}`),
    'Restart=on-failure',
    'RestartSec=1',
    `RestartPreventExitStatus=${String(CONFIG_INVALID_EXIT)}`,
    `TimeoutStartSec=${String(START_SECONDS)}`,
    `TimeoutStopSec=${String(STOP_SECONDS)}`,
    `WatchdogSec=${String(WATCHDOG_SECONDS)}`,
    // Only the daemon gets the signal: it drains, and then ends its engines.
    'KillMode=mixed',
    'OOMPolicy=continue',
    'UMask=0077',
    // A core file would contain prompts and keys.
    'LimitCORE=0',
    '',
    '# What it may not do.',
    'NoNewPrivileges=yes',
    'PrivateUsers=yes',
    'PrivateMounts=yes',
    'ProtectSystem=strict',
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
    // Engine processes sandbox themselves with these; older systemd versions do not have the group @sandbox.
    'SystemCallFilter=seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self',
    // Needed to keep the owner of a file that is replaced.
    'SystemCallFilter=@chown',
    'SystemCallErrorNumber=EPERM',
  ];
}

/** True if `unit`, the text of a unit file, is for the daemon of this control socket. */
export function servesSocket(unit: string, socketPath: string): boolean {
  return unit.endsWith(`\n[${OWN_SECTION}]\nSocket=${socketPath}\n`);
}

/** Path of a unit file of this user. */
export function unitPath(unit: string): string {
  return join(variable('XDG_CONFIG_HOME') ?? join(homedir(), '.config'), 'systemd', 'user', unit);
}

/** Text of the socket unit for the HTTP address. */
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

/** Quotes a value for systemd, and escapes its specifiers (%). */
function quote(text: string): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%');
  return /^[\w./:=@+,-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}

/** Quotes a command. systemd expands variables ($) in its arguments only. */
function quoteCommand([program = '', ...args]: readonly string[]): string {
  return [quote(program), ...args.map((argument) => quote(argument).replaceAll('$', '$$$$'))].join(' ');
}
