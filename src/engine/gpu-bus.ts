/** Lists the GPUs on the PCI bus, found through sysfs, without a driver. Linux only. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { orElse } from '../protocol/foreign-text.ts';

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
  return orElse(() => readdirSync(bus).sort(), []).flatMap((address): Gpu[] => {
    const read = (file: string): string => orElse(() => readFileSync(join(bus, address, file), 'utf8').trim(), '');
    const vendor = VENDORS[read('vendor')];
    if (vendor === undefined || !read('class').startsWith(DISPLAY_CONTROLLER)) return [];
    const id = `${read('vendor').slice(2)}:${read('device').slice(2)}`;
    const driver = orElse(() => basename(readlinkSync(join(bus, address, 'driver'))), null);
    return [{ name: `${vendor} ${id} at ${address}`, driver }];
  });
}
