/** Lists the GPUs on the PCI bus, found through sysfs, without a driver. Linux only. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';

export interface Gpu {
  /** `NVIDIA 10de:2335 at 0000:01:00.0`. */
  readonly name: string;
  /** Kernel driver; null: none is bound. */
  readonly driver: string | null;
}

/** Display devices of other vendors are server and VM consoles, which cannot compute. */
const VENDORS: Readonly<Record<string, string>> = { '0x10de': 'NVIDIA', '0x1002': 'AMD', '0x8086': 'Intel' };
const DISPLAY_CONTROLLER = '0x03';

export function gpusOnBus(bus = '/sys/bus/pci/devices'): Gpu[] {
  return entriesOf(bus).flatMap((address): Gpu[] => {
    const read = (file: string): string => readText(join(bus, address, file));
    const vendor = VENDORS[read('vendor')];
    if (vendor === undefined || !read('class').startsWith(DISPLAY_CONTROLLER)) return [];
    const id = `${read('vendor').slice(2)}:${read('device').slice(2)}`;
    return [{ name: `${vendor} ${id} at ${address}`, driver: driverOf(join(bus, address)) }];
  });
}

function entriesOf(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    return [];
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}

function driverOf(device: string): string | null {
  try {
    return basename(readlinkSync(join(device, 'driver')));
  } catch {
    return null;
  }
}
