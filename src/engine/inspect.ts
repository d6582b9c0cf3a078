/** The child's side of a probe. Reports each action before starting it, because it might crash. */
import { SvcError } from '../protocol/errors.ts';
import type { FromEngine, ProbedDevice, ProbeFacts, ToEngine } from './messages.ts';
import { loadAddon } from './loader.ts';
import { enterSandbox } from './sandbox.ts';

/** ggml logs a line or two per backend. */
const LOG_LINES = 100;
const LOG_LINE_CHARACTERS = 500;

type Probe = Extract<ToEngine, { type: 'probe' }>;

export async function inspectMachine(
  { measure, parentPid }: Probe,
  send: (message: FromEngine) => void,
): Promise<void> {
  const log: string[] = [];
  let facts: ProbeFacts = { addon: null, devices: [], cpuFeatures: null, log, error: null };
  /** Resolves when the report is written to the pipe, before the next action can block this thread. */
  const report = async (found: Partial<ProbeFacts>, next: string | null): Promise<void> => {
    facts = { ...facts, ...found };
    send({ type: 'probed', facts, next });
    await new Promise(setImmediate);
  };

  try {
    await report({}, 'loading the addon');
    const { addon, path, directory } = loadAddon();
    addon.dieWithParent(parentPid);
    addon.setLogger((level, text) => {
      if (level !== 'debug' && log.length < LOG_LINES) log.push(text.slice(0, LOG_LINE_CHARACTERS));
    });
    await report({ addon: { path, ...addon.info } }, 'looking for compute devices');
    addon.loadBackends(directory);
    // A probe must work under an engine's restrictions. Measuring needs the driver's shader cache, outside the sandbox.
    if (!measure) enterSandbox({ addonFolder: directory });
    const devices: ProbedDevice[] = (await addon.devices()).map((device) => ({ ...device, gflops: null, error: null }));
    await report({ devices, cpuFeatures: addon.cpuFeatures() }, 'finishing');

    for (const [index, device] of measure ? devices.entries() : []) {
      await report({ devices }, `running a kernel on ${device.name}`);
      try {
        devices[index] = { ...device, gflops: await addon.measureDevice(index) };
      } catch (error) {
        devices[index] = { ...device, error: SvcError.from(error).message };
      }
    }
    await report({ devices }, null);
  } catch (error) {
    await report({ error: SvcError.from(error).toRecord() }, null);
  }
}
