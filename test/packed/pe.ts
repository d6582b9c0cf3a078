/** Makes Windows libraries with imports and exports and no code, for tests of what reads them. */

export interface WindowsLibrary {
  /** Functions that it takes from each library. */
  readonly imports: Readonly<Record<string, readonly string[]>>;
  readonly exports: readonly string[];
  readonly machine: number;
}

const SECTION = { address: 0x1000, offset: 0x200 };
const X64 = 0x8664;

/** Format: Microsoft's "PE Format", PE32+. */
export function windowsLibrary({ imports = {}, exports = [], machine = X64 }: Partial<WindowsLibrary>): Buffer {
  const section = new Section();
  const exported = exports.length === 0 ? [0, 0] : exportTable(section, exports);
  const imported = Object.keys(imports).length === 0 ? [0, 0] : importTable(section, imports);
  const content = section.bytes();
  const head = Buffer.alloc(SECTION.offset);
  head.write('MZ');
  head.writeUInt32LE(0x40, 0x3c);
  head.write('PE\0\0', 0x40);
  const coff = 0x44;
  head.writeUInt16LE(machine, coff);
  head.writeUInt16LE(1, coff + 2); // sections
  head.writeUInt16LE(240, coff + 16); // bytes of the optional header
  head.writeUInt16LE(0x2022, coff + 18); // a DLL for large addresses
  const optional = coff + 20;
  head.writeUInt16LE(0x20b, optional);
  head.writeUInt32LE(0x1000, optional + 32); // alignment in memory
  head.writeUInt32LE(0x200, optional + 36); // in the file
  head.writeUInt32LE(SECTION.address + content.length, optional + 56);
  head.writeUInt32LE(SECTION.offset, optional + 60);
  head.writeUInt32LE(16, optional + 108); // tables
  for (const [at, value] of [...exported, ...imported].entries()) head.writeUInt32LE(value, optional + 112 + at * 4);
  const entry = optional + 240;
  head.write('.data', entry);
  for (const [at, value] of [content.length, SECTION.address, content.length, SECTION.offset].entries()) {
    head.writeUInt32LE(value, entry + 8 + at * 4);
  }
  head.writeUInt32LE(0x40000040, entry + 36); // initialized data, readable
  return Buffer.concat([head, content]);
}

/** The bytes of the section so far; adding some returns their address in memory. */
class Section {
  readonly #parts: Buffer[] = [];
  #length = 0;

  add(bytes: Buffer): number {
    const address = SECTION.address + this.#length;
    const padded = Buffer.concat([bytes], (bytes.length + 7) & ~7);
    this.#parts.push(padded);
    this.#length += padded.length;
    return address;
  }

  addText(text: string): number {
    return this.add(Buffer.from(`${text}\0`));
  }

  addNumbers(...numbers: readonly number[]): number {
    return this.add(numbersOf(numbers));
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

function numbersOf(numbers: readonly number[]): Buffer {
  const bytes = Buffer.alloc(numbers.length * 4);
  for (const [at, number] of numbers.entries()) bytes.writeUInt32LE(number, at * 4);
  return bytes;
}

/** Address and size of the table. */
function exportTable(section: Section, names: readonly string[]): [number, number] {
  const own = section.addText('own.dll');
  const functions = section.addNumbers(...names.map(() => SECTION.address));
  const texts = section.addNumbers(...names.map((name) => section.addText(name)));
  const ordinals = Buffer.alloc(names.length * 2);
  for (const at of names.keys()) ordinals.writeUInt16LE(at, at * 2);
  const table = [0, 0, 0, own, 1, names.length, names.length, functions, texts, section.add(ordinals)];
  return [section.addNumbers(...table), 40];
}

function importTable(section: Section, imports: WindowsLibrary['imports']): [number, number] {
  const libraries = Object.entries(imports).flatMap(([library, names]) => {
    const hints = names.map((name) => section.add(Buffer.from(`\0\0${name}\0`)));
    // 64 bits each, with a zero at the end.
    const thunks = [...hints, 0].flatMap((address) => [address, 0]);
    return [section.addNumbers(...thunks), 0, 0, section.addText(library), section.addNumbers(...thunks)];
  });
  return [section.addNumbers(...libraries, 0, 0, 0, 0, 0), libraries.length * 4 + 20];
}
