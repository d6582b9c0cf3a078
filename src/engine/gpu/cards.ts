/** Lists the GPUs on the PCI bus with their kernel drivers, from sysfs and the drivers' own files. Linux only. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { orElse } from '../../protocol/foreign-text.ts';
import { computeCapability } from './nvidia-chips.ts';

export type Vendor = 'NVIDIA' | 'AMD' | 'Intel';

export interface Gpu {
  readonly vendor: Vendor;
  /** `NVIDIA H100 PCIe at 0000:01:00.0`; `AMD 1002:744c at 0000:03:00.0` if the model is unknown. */
  readonly name: string;
  /** Kernel driver; null: none is bound. */
  readonly driver: string | null;
  /** Version of the driver; in-tree drivers have the kernel's version. null: unknown, or no driver. */
  readonly driverVersion: string | null;
  /** NVIDIA's compute capability, times ten; null: another vendor, or unknown. */
  readonly capability: number | null;
}

/** Display devices of other vendors are server and VM consoles, which cannot compute. */
const VENDORS: Readonly<Record<string, Vendor>> = { '0x10de': 'NVIDIA', '0x1002': 'AMD', '0x8086': 'Intel' };
const DISPLAY_CONTROLLER = '0x03';
/** Names of PCI devices, if the package pciutils or hwdata is installed. */
const NAME_LISTS = ['usr/share/misc/pci.ids', 'usr/share/hwdata/pci.ids'];

/** @param root directory that stands for `/`; tests replace it */
export function gpusOnBus(root = '/'): Gpu[] {
  const bus = join(root, 'sys/bus/pci/devices');
  return orElse(() => readdirSync(bus).sort(), []).flatMap((address): Gpu[] => {
    const read = (file: string): string => textOf(join(bus, address, file));
    const vendor = VENDORS[read('vendor')];
    if (vendor === undefined || !read('class').startsWith(DISPLAY_CONTROLLER)) return [];
    const ids = [read('vendor').slice(2), read('device').slice(2)] as const;
    const driver = orElse(() => basename(readlinkSync(join(bus, address, 'driver'))), null);
    const model = nvidiaModel(root, address) ?? listedModel(root, vendor, ids) ?? `${vendor} ${ids.join(':')}`;
    const capability = vendor === 'NVIDIA' ? computeCapability(read('device')) : null;
    return [{ vendor, name: `${model} at ${address}`, driver, driverVersion: versionOf(root, driver), capability }];
  });
}

/** `NVIDIA H100 PCIe`, from NVIDIA's driver. */
function nvidiaModel(root: string, address: string): string | undefined {
  const text = textOf(join(root, 'proc/driver/nvidia/gpus', address, 'information'));
  return /^Model:\s*(\S.{0,99}?)\s*$/m.exec(text)?.[1];
}

/** `AMD Navi 31 [Radeon RX 7900 XT]`: the line below that of the vendor. */
function listedModel(
  root: string,
  vendor: Vendor,
  [vendorId, deviceId]: readonly [string, string],
): string | undefined {
  for (const list of NAME_LISTS) {
    const lines = textOf(join(root, list)).split('\n');
    const start = lines.findIndex((line) => line.startsWith(`${vendorId}  `));
    for (const line of start === -1 ? [] : lines.slice(start + 1)) {
      if (!line.startsWith('\t') && !line.startsWith('#')) break;
      if (line.startsWith(`\t${deviceId}  `)) return `${vendor} ${line.slice(deviceId.length + 3).trim()}`;
    }
  }
  return undefined;
}

function versionOf(root: string, driver: string | null): string | null {
  if (driver === null) return null;
  const own = textOf(join(root, 'sys/module', driver, 'version'));
  if (own !== '') return own;
  if (driver === 'nvidia') {
    const banner = textOf(join(root, 'proc/driver/nvidia/version'));
    return /^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s/m.exec(banner)?.[1] ?? null;
  }
  const kernel = textOf(join(root, 'proc/sys/kernel/osrelease'));
  return kernel === '' ? null : `Linux ${kernel}`;
}

function textOf(path: string): string {
  return orElse(() => readFileSync(path, 'utf8').trimEnd(), '');
}
