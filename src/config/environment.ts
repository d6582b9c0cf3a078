/** The only reader of the environment: every variable that svc looks at stands in this table. */

export const VARIABLES = {
  SVC_HOME: 'one directory for config, data, models, state, cache and run',
  SVC_CONFIG: 'path of the config file',
  SVC_SOCKET: 'path of the control socket',
  SVC_HTTP_ADDR: 'address of the HTTP listener, host:port',
  SVC_GRPC_ADDR: 'address of the gRPC listener, host:port',
  SVC_API_KEY: 'the key with which `svc health` asks over HTTP and gRPC',
  SVC_LOG_LEVEL: 'trace, debug, info, warn, error or fatal',
  LD_LIBRARY_PATH: 'where the dynamic linker looks for libraries first; an engine may read there',
  GGML_BACKEND_PATH: 'path of a GPU backend of ggml, instead of the installed package',
  SVC_ADDON: 'path of svc.node, instead of the built or shipped one',
  HF_ENDPOINT: 'the hub that models are pulled from, instead of https://huggingface.co',
  HF_TOKEN: 'the token that the hub is shown, and nobody else',
  HF_HUB_OFFLINE: 'set, and neither 0 nor false: nothing is asked of a hub',
  NOTIFY_SOCKET: 'where systemd is told what the daemon does',
  WATCHDOG_USEC: 'after so many microseconds of silence systemd starts the daemon anew',
  WATCHDOG_PID: 'the process that WATCHDOG_USEC is for',
  LISTEN_FDS: 'how many listening sockets systemd passes on',
  LISTEN_PID: 'the process that they are for',
  LISTEN_FDNAMES: 'their names: http, control',
  XDG_CONFIG_HOME: 'base of the config directory',
  XDG_DATA_HOME: 'base of the data directory',
  XDG_STATE_HOME: 'base of the state directory',
  XDG_CACHE_HOME: 'base of the cache directory',
  XDG_RUNTIME_DIR: 'base of the runtime directory',
  APPDATA: 'base of the config directory on Windows',
  LOCALAPPDATA: 'base of the data, state and cache directories on Windows',
  NO_COLOR: 'set and not empty: no colour',
  FORCE_COLOR: 'set and neither empty nor 0: colour even without a terminal',
  TERM: 'the terminal; `dumb` means no colour and no animation',
  COLUMNS: 'width of the terminal where it cannot be asked',
} as const;

export type Variable = keyof typeof VARIABLES;

/** What a person may have set for their daemon, and a service manager does not know. */
export const SERVICE_VARIABLES: readonly Variable[] = [
  'SVC_HOME',
  'SVC_CONFIG',
  'SVC_SOCKET',
  'SVC_HTTP_ADDR',
  'SVC_LOG_LEVEL',
  'SVC_ADDON',
  'HF_ENDPOINT',
  'HF_HUB_OFFLINE',
  'XDG_CONFIG_HOME',
  'XDG_DATA_HOME',
  'XDG_STATE_HOME',
  'XDG_CACHE_HOME',
];

/** The value of a variable; one that is set but empty counts as unset. */
export function variable(name: Variable): string | undefined {
  const value = process.env[name];
  return value === undefined || value === '' ? undefined : value;
}

/** Variables that were looked at for a key, whatever they are called. */
const keyVariables = new Set<string>();

/** The key of a provider, in a variable that the catalogue or the config names. */
export function keyIn(name: string): string | undefined {
  keyVariables.add(name);
  const value = process.env[name]?.trim();
  return value === '' ? undefined : value;
}

/** The value of a variable that is for this process and not for its children, who no longer see it. */
export function takeVariable(name: Variable): string | undefined {
  const value = variable(name);
  Reflect.deleteProperty(process.env, name);
  return value;
}

/** For the libraries of this process, which look at it later. */
export function setForDrivers(name: string, value: string): void {
  process.env[name] = value;
}

/** The environment for a child process: ours, with `changes` on top (undefined removes). */
export function childEnvironment(changes: Readonly<Record<string, string | undefined>> = {}): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries({ ...process.env, ...changes })) {
    if (value !== undefined) environment[name] = value;
  }
  return environment;
}

/**
 * What an engine process may know: where it runs, and what libraries, drivers and Node itself look
 * at. Everything else stays with the daemon, whose environment may hold the keys of providers.
 */
const FOR_ENGINES = new Set(
  [
    'PATH HOME USER LOGNAME USERPROFILE TMPDIR TEMP TMP TZ LANG DISPLAY WAYLAND_DISPLAY LD_LIBRARY_PATH',
    'SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES',
    'ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS',
  ].flatMap((line) => line.split(' ')),
);
/** What stands before the first underscore: of ours, Node's, ggml's, and of GPU drivers and compute libraries. */
const FAMILIES_FOR_ENGINES = new Set(
  [
    'SVC XDG LC DYLD NODE UV TSX GGML LLAMA OMP GOMP KMP',
    'VK MESA LP LIBGL DRI GALLIUM RADV NV CUDA NVIDIA HIP ROC ROCR HSA ONEAPI SYCL ZE OCL',
  ].flatMap((line) => line.split(' ')),
);
const A_SECRET = /KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH/i;

export function engineEnvironment(changes: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const isForEngines = (name: string): boolean => {
    const upper = name.toUpperCase();
    const family = /^_*([A-Z]+)_/.exec(upper)?.[1];
    if (A_SECRET.test(name) || keyVariables.has(name)) return false;
    return FOR_ENGINES.has(upper) || (family !== undefined && FAMILIES_FOR_ENGINES.has(family));
  };
  return Object.fromEntries(Object.entries(childEnvironment(changes)).filter(([name]) => isForEngines(name)));
}
