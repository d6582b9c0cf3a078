/** The only reader of the environment: this table has every variable that svc reads. */

export const VARIABLES = {
  SVC_HOME: 'one directory for config, data, models, state, cache and run',
  SVC_CONFIG: 'path of the config file',
  SVC_SOCKET: 'path of the control socket',
  SVC_HTTP_ADDR: 'address of the HTTP listener, host:port',
  SVC_GRPC_ADDR: 'address of the gRPC listener, host:port',
  SVC_API_KEY: 'API key that `svc health` sends over HTTP and gRPC, and `svc launch` gives to an agent',
  SVC_LOG_LEVEL: 'trace, debug, info, warn, error or fatal',
  LD_LIBRARY_PATH: 'folders that the dynamic linker searches first; an engine may read them',
  GGML_BACKEND_PATH: 'path of a GPU backend of ggml, instead of the installed package',
  SVC_ADDON: 'path of svc.node, instead of the built or shipped one',
  HF_ENDPOINT: 'the hub that models are pulled from, instead of https://huggingface.co',
  HF_TOKEN: 'the token for the hub, sent to no other server',
  HF_HUB_OFFLINE: 'set, and neither 0 nor false: no request is sent to a hub',
  NPM_CONFIG_REGISTRY: 'the npm registry of `svc gpu install`, instead of that of the npm config',
  npm_config_registry: 'as NPM_CONFIG_REGISTRY',
  NPM_CONFIG_USERCONFIG: "path of the user's npm config, instead of ~/.npmrc",
  npm_config_userconfig: 'as NPM_CONFIG_USERCONFIG',
  NPM_CONFIG_GLOBALCONFIG: 'path of the global npm config',
  npm_config_globalconfig: 'as NPM_CONFIG_GLOBALCONFIG',
  OLLAMA_MODELS: "folder of Ollama's models, for imports",
  HF_HUB_CACHE: "folder of the hub's cache, for imports",
  HF_HOME: "folder above the hub's cache, if HF_HUB_CACHE is not set",
  OTEL_EXPORTER_OTLP_ENDPOINT: 'base URL of an OpenTelemetry collector, to which traces are sent',
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'URL to which traces are sent, instead of a path below that base URL',
  OTEL_EXPORTER_OTLP_HEADERS: 'headers for the collector: name=value, separated by commas, percent-encoded',
  OTEL_SERVICE_NAME: 'name of the service in traces, instead of svc',
  OTEL_SDK_DISABLED: '`true`: no traces',
  NO_PROXY: 'hosts that are reached without the proxy of HTTPS_PROXY; `svc launch` adds the host of svc for the agent',
  no_proxy: 'as NO_PROXY',
  NOTIFY_SOCKET: 'socket on which systemd receives notifications of the daemon',
  WATCHDOG_USEC: 'microseconds without a notification after which systemd restarts the daemon',
  WATCHDOG_PID: 'the process that WATCHDOG_USEC is for',
  LISTEN_FDS: 'number of listening sockets that systemd passes',
  LISTEN_PID: 'the process that the sockets are for',
  LISTEN_FDNAMES: 'names of the sockets: http, control',
  XDG_CONFIG_HOME: 'base of the config directory',
  XDG_DATA_HOME: 'base of the data directory',
  XDG_STATE_HOME: 'base of the state directory',
  XDG_CACHE_HOME: 'base of the cache directory',
  XDG_RUNTIME_DIR: 'base of the runtime directory',
  APPDATA: 'base of the config directory on Windows',
  LOCALAPPDATA: 'base of the data, state and cache directories on Windows',
  PATH: 'directories in which `svc launch` looks for an agent, and `svc open` for a browser',
  PATHEXT: 'endings of programs on Windows',
  USERDOMAIN: 'domain of the user on Windows, for the scheduled task',
  COMSPEC: 'the command interpreter of Windows, which runs batch files',
  DISPLAY: 'the X display, on which `svc open` opens a browser',
  WAYLAND_DISPLAY: 'the Wayland display, likewise',
  SSH_CONNECTION: 'set in a session over SSH, where `svc open` prints the link',
  NO_COLOR: 'set and not empty: no colour',
  FORCE_COLOR: 'set and neither empty nor 0: colour even without a terminal',
  TERM: 'the terminal; `dumb` means no colour and no animation',
  COLUMNS: 'width of text on a terminal, instead of its own',
} as const;

export type Variable = keyof typeof VARIABLES;

/** Variables that a user may have set for the daemon, and that a service manager does not pass by itself. */
export const SERVICE_VARIABLES: readonly Variable[] = [
  'SVC_HOME',
  'SVC_CONFIG',
  'SVC_SOCKET',
  'SVC_HTTP_ADDR',
  'SVC_GRPC_ADDR',
  'SVC_LOG_LEVEL',
  'SVC_ADDON',
  'HF_ENDPOINT',
  'HF_HUB_OFFLINE',
  'OLLAMA_MODELS',
  'HF_HUB_CACHE',
  'HF_HOME',
  'OTEL_EXPORTER_OTLP_ENDPOINT',
  'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
  'OTEL_SERVICE_NAME',
  'OTEL_SDK_DISABLED',
  'XDG_CONFIG_HOME',
  'XDG_DATA_HOME',
  'XDG_STATE_HOME',
  'XDG_CACHE_HOME',
];

/** Returns the value of a variable; an empty one counts as unset. */
export function variable(name: Variable): string | undefined {
  const value = process.env[name];
  return value === undefined || value === '' ? undefined : value;
}

/** Variables that a daemon's successor gets as they were: its settings and places, but no key. */
const SETTINGS: readonly Variable[] = [
  ...SERVICE_VARIABLES,
  'XDG_RUNTIME_DIR',
  'APPDATA',
  'LOCALAPPDATA',
  'LD_LIBRARY_PATH',
  'GGML_BACKEND_PATH',
];

/** The settings that are set in this environment. */
export function settingsSet(): Record<string, string> {
  const set = SETTINGS.map((name) => [name, variable(name)] as const);
  return Object.fromEntries(set.filter((entry): entry is readonly [Variable, string] => entry[1] !== undefined));
}

/** Gives this process the settings of another one. Those that are not in `settings` are unset. */
export function takeSettings(settings: Readonly<Record<string, string>>): void {
  for (const name of SETTINGS) {
    const value = settings[name];
    if (value === undefined) Reflect.deleteProperty(process.env, name);
    else process.env[name] = value;
  }
}

/** Names of variables that were read for a provider's key. */
const keyVariables = new Set<string>();

/** Returns a provider's key from a variable that the catalogue or the config names. */
export function keyIn(name: string): string | undefined {
  keyVariables.add(name);
  const value = process.env[name]?.trim();
  return value === '' ? undefined : value;
}

/** Returns and removes a variable that child processes must not see. */
export function takeVariable(name: Variable): string | undefined {
  const value = variable(name);
  Reflect.deleteProperty(process.env, name);
  return value;
}

/** Sets a variable for libraries of this process, which read it later. */
export function setForDrivers(name: string, value: string): void {
  process.env[name] = value;
}

/** The environment for a child process: ours, with `changes` on top (undefined removes). */
export function childEnvironment(changes: Readonly<Record<string, string | undefined>> = {}): Record<string, string> {
  return withChanges(process.env, changes);
}

function withChanges(
  variables: Readonly<Record<string, string | undefined>>,
  changes: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const entries = Object.entries({ ...variables, ...changes }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Record<string, string>;
}

/**
 * Variables that an engine process gets: its surroundings, and variables of libraries, drivers and Node. No others
 * are passed, since the daemon's environment may hold the keys of providers.
 */
const FOR_ENGINES = new Set(
  [
    'PATH HOME USER LOGNAME USERPROFILE TMPDIR TEMP TMP TZ LANG DISPLAY WAYLAND_DISPLAY LD_LIBRARY_PATH',
    'SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES',
    'ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS',
  ].flatMap((line) => line.split(' ')),
);
/** Prefixes before the first underscore: variables of svc, Node, ggml, GPU drivers and compute libraries. */
const FAMILIES_FOR_ENGINES = new Set(
  [
    'SVC XDG LC DYLD NODE UV TSX GGML LLAMA OMP GOMP KMP',
    'VK MESA LP LIBGL DRI GALLIUM RADV NV CUDA NVIDIA HIP ROC ROCR HSA ONEAPI SYCL ZE OCL',
  ].flatMap((line) => line.split(' ')),
);
const A_SECRET = /KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH/i;

/** The environment for an engine process, with `changes` on top (undefined removes). */
export function engineEnvironment(changes: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const isForEngines = (name: string): boolean => {
    const upper = name.toUpperCase();
    const family = /^_*([A-Z]+)_/.exec(upper)?.[1];
    if (A_SECRET.test(name) || keyVariables.has(name)) return false;
    return FOR_ENGINES.has(upper) || (family !== undefined && FAMILIES_FOR_ENGINES.has(family));
  };
  const own = Object.entries(process.env).filter(([name]) => isForEngines(name));
  return withChanges(Object.fromEntries(own), changes);
}
