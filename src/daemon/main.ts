/** The daemon's composition root: the only file that knows every part. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isatty } from 'node:tty';
import type { Backend } from '../backends/backend.ts';
import { CloudBackend } from '../backends/cloud/cloud-backend.ts';
import { ClusterBackend } from '../backends/cloud/cluster/cluster-backend.ts';
import { LocalBackend } from '../backends/local/local-backend.ts';
import { loadConfig } from '../config/config.ts';
import { modelNamesIn } from '../config/model-settings.ts';
import type { DaemonFile } from '../home/daemon-file.ts';
import { quantizeFile } from '../engine/quantize-file.ts';
import { variable } from '../process/environment.ts';
import { capabilitiesFile, ownPaths } from '../home/paths.ts';
import { LogFile } from '../log/log-file.ts';
import { createLogger, StderrLog, Tee, type LogDestination, type Logger } from '../log/log.ts';
import { hubEnvironment } from '../config/hub.ts';
import { ENGINE_VERSION } from '../config/version.ts';
import { builtinModelPath } from '../models/store/builtin.ts';
import { pullByName } from '../models/pull/by-name.ts';
import { within } from '../files/within.ts';
import { inBackground } from './in-background.ts';
import { PrefixRoom } from '../models/store/prefix-room.ts';
import {
  adoptPrefixes,
  clearPrefixes,
  defaultPrefixBytes,
  prefixFolder,
  shaderFolder,
  prefixKey,
  prefixName,
} from '../models/store/prefixes.ts';
import { Puller } from '../models/pull/puller.ts';
import { NamedModels } from '../models/store/named-models.ts';
import { ModelStore } from '../models/store/store.ts';
import { orElse } from '../protocol/foreign-text.ts';
import { furtherNames } from '../protocol/model/settings.ts';
import { ProviderKeys } from '../providers/provider-keys.ts';
import { Router } from '../routing/router.ts';
import { countAnswer } from '../usage/answered.ts';
import { Budgets } from '../usage/budgets.ts';
import { Quotas } from '../usage/quotas.ts';
import { Daemon, type DaemonParts } from './daemon.ts';
import { takeInheritedSockets } from './inherited.ts';
import { Lifecycle } from './lifecycle.ts';
import { protectMemory } from './own-process.ts';
import { CloudProviders } from './providers.ts';
import { ServiceManager } from './service-manager.ts';

/**
 * Runs the daemon until it has ended completely; resolves with the exit code. Throws a SvcError when it
 * cannot start: ALREADY_RUNNING, CONFIG_INVALID, CANNOT_WRITE.
 */
export async function runDaemon(mode: DaemonFile['mode']): Promise<number> {
  const paths = ownPaths();
  const config = loadConfig(paths);
  const logFile = new LogFile(paths.logFile);
  const destination = openLog(mode, logFile);
  const log = createLogger({ level: config.log.level, destination });
  const lifecycle = new Lifecycle(log);
  lifecycle.handleProcess(mode, destination);
  const serviceManager = new ServiceManager(log, protectMemory(log));
  try {
    return await run({ mode, paths, config, logFile, log, lifecycle, serviceManager });
  } finally {
    await destination.close();
  }
}

/** Time that the disk has to tidy up saved prefixes before the start continues. */
const ADOPT_MS = 2000;

interface Base extends Pick<DaemonParts, 'mode' | 'paths' | 'config' | 'log' | 'lifecycle'> {
  readonly serviceManager: ServiceManager;
  readonly logFile: LogFile;
}

/** Creates every other part and runs the daemon with them; resolves with the exit code. */
async function run({ logFile, ...base }: Base): Promise<number> {
  const { paths, config, log } = base;
  const modelsDir = config.models.dir ?? paths.modelsDir;
  const { installed, store } = openModels(base, modelsDir, () => local.modelsChanged());
  const prefixes = prefixFolder(paths.cacheDir);
  const shareOfDisk = await defaultPrefixBytes(prefixes);
  const { prefix_disk_bytes = shareOfDisk } = config.engine;
  const room = openRoom(prefixes, prefix_disk_bytes, log);
  const local: LocalBackend = new LocalBackend({
    store,
    engine: { ...config.engine, prefix_disk_bytes },
    prefixes: { folderOf: (path) => room.open(path), nameOf: prefixName, key: () => prefixKey(paths.stateDir) },
    shaderFolderOf: (path) => shaderFolder(paths.cacheDir, path),
    models: config.models,
    log,
    onChange: () => daemon.engineChanged(),
  });
  const backends = new Map<string, Backend>([[local.name, local]]);
  const providers = openProviders(base, backends);
  const puller = new Puller({ store: installed, storeDir: modelsDir, dir: join(paths.cacheDir, 'downloads') });
  const budgets = openBudgets(base, providers);
  const quotas = new Quotas({ dir: paths.stateDir, trouble: () => budgets.trouble });
  const daemon = new Daemon({
    ...base,
    modelsDir,
    inherited: takeInheritedSockets(log),
    store,
    installed,
    local,
    backends,
    providers,
    router: new Router(backends, {
      policies: () => providers.policies,
      admit: (provider) => budgets.admit(provider),
      admitCaller: (caller) => quotas.admit(caller),
      find: (name) => store.find(name),
    }),
    countAnswer: (outcome) => countAnswer(outcome, budgets, quotas),
    fileTroubles: () => [logFile.trouble, budgets.trouble],
    tidyPrefixes: () => tidyPrefixes(prefixes, prefix_disk_bytes),
    onPrefixBytes: (bytes = shareOfDisk) => {
      local.setPrefixBytes(bytes);
      room.setLimit(bytes);
    },
    onModelNames: (names) => {
      store.setNames(names);
      inBackground(log, 'applying the settings of models', local.modelsChanged());
    },
    quantizer: quantizeFile,
    // A user without an entry and without HOME has no home; then nothing is found there.
    surroundings: { platform: process.platform, home: orElse(homedir, '/'), variable },
    pull: (request, signal, dialect) => pullByName(puller, request, hubEnvironment(), signal, dialect),
  });
  try {
    return (await daemon.run()).code;
  } finally {
    room.close();
    await puller.close();
    await budgets.close();
  }
}

/** A limit of 0 turns prefix files off: those on disk are deleted. REQUIRES: no engine runs. */
async function tidyPrefixes(folder: string, bytes: number): Promise<void> {
  if (bytes === 0) await clearPrefixes(folder);
  else await within(ADOPT_MS, adoptPrefixes(folder));
}

function openRoom(folder: string, bytes: number, log: Logger): PrefixRoom {
  return new PrefixRoom({
    folder,
    bytes,
    onFailure: (error) => log.warn({ err: error }, 'cannot limit the size of saved prefixes'),
  });
}

function openProviders(
  { paths, config, log }: Pick<Base, 'paths' | 'config' | 'log'>,
  backends: Map<string, Backend>,
): CloudProviders {
  const providers = new CloudProviders({
    keys: new ProviderKeys(paths.credentialsFile),
    backends,
    connect: (provider) =>
      provider.endpoints.length > 1 ? new ClusterBackend({ provider, log }) : new CloudBackend({ provider, log }),
    log,
  });
  providers.apply(config);
  return providers;
}

function openBudgets({ paths, log }: Pick<Base, 'paths' | 'log'>, providers: CloudProviders): Budgets {
  return new Budgets({
    dir: paths.stateDir,
    budgetOf: (provider) => providers.budgetOf(provider),
    onFailure: (error) => log.error({ err: error }, 'cannot write the usage ledger'),
  });
}

/**
 * `store`: the installed models, also under the names of the config. `changed` replaces the engines of changed models:
 * after a pull, one with the older files would stay in memory beside that with the newer ones.
 */
function openModels(
  { paths, config, log }: Pick<Base, 'paths' | 'config' | 'log'>,
  dir: string,
  changed: () => Promise<void>,
) {
  const onChange = (): void => inBackground(log, 'replacing the engines of changed models', changed());
  const tried = { path: capabilitiesFile(paths), version: ENGINE_VERSION };
  const reserved = (): string[] => furtherNames(store.names);
  const installed = new ModelStore({ dir, builtinPath: builtinModelPath(), tried, reserved, onChange });
  const store = new NamedModels({ store: installed, names: modelNamesIn(config.models) });
  return { installed, store };
}

/** Opens the log file, which `svc logs` reads; unless in the background, logs to standard error as well. */
function openLog(mode: DaemonFile['mode'], file: LogFile): LogDestination {
  if (mode === 'background') return file;
  const people = isatty(2) ? { colour: variable('NO_COLOR') === undefined && variable('TERM') !== 'dumb' } : null;
  return new Tee([file, new StderrLog(people)]);
}
