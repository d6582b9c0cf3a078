/** Writes libraries for macOS that have load commands and symbols, but no code. */

export interface Library {
  readonly machine: 'arm64' | 'x64';
  /** Oldest macOS, as 14.0; null: the file does not state its system. */
  readonly minimum: string | null;
  /** Install names. */
  readonly needed: readonly string[];
  readonly runPaths: readonly string[];
  readonly signed: boolean;
  /** Name of a section of __DATA that has bytes. */
  readonly section: string;
  /** Symbols by the index of their library in `needed`; -1: the first loaded library that has it. */
  readonly undefined: readonly (readonly [name: string, library: number])[];
  readonly defined: readonly string[];
}

const DEFAULTS: Library = {
  machine: 'arm64',
  minimum: '14.0',
  needed: ['/usr/lib/libSystem.B.dylib'],
  runPaths: ['@loader_path'],
  signed: true,
  section: '__data',
  undefined: [],
  defined: [],
};

const HEADER_BYTES = 32;
const SECTION_BYTES = 16;
const SYMBOL_BYTES = 16;
const BUNDLE = 8;
const DYNAMIC_LOOKUP = 0xfe;

/** Returns the bytes of a file with everything that is not given at its default. */
export function machO(given: Partial<Library>): Buffer {
  const library = { ...DEFAULTS, ...given };
  const { symbols, names } = symbolTable(library);
  // The commands have the same size wherever the tables are.
  const start = HEADER_BYTES + Buffer.concat(commandsOf(library, 0, symbols, names)).length;
  const commands = commandsOf(library, start, symbols, names);
  const cpu = { arm64: 0x0100000c, x64: 0x01000007 }[library.machine];
  const size = Buffer.concat(commands).length;
  const header = words(0xfeedfacf, cpu, library.machine === 'arm64' ? 0 : 3, BUNDLE, commands.length, size, 0x84, 0);
  const contents = [Buffer.alloc(SECTION_BYTES, 1), symbols, names, Buffer.alloc(SECTION_BYTES)];
  return Buffer.concat([header, ...commands, ...contents]);
}

function commandsOf(library: Library, start: number, symbols: Buffer, names: Buffer): Buffer[] {
  const { minimum, needed, runPaths, signed, section } = library;
  const symbolsAt = start + SECTION_BYTES;
  const namesAt = symbolsAt + symbols.length;
  const end = namesAt + names.length;
  const linkEdit = [symbolsAt, end + SECTION_BYTES - symbolsAt] as const;
  const table = words(symbolsAt, symbols.length / SYMBOL_BYTES, namesAt, names.length);
  return [
    command(0x19, segment('__DATA', start, SECTION_BYTES, 1), sectionHeader(section, start)),
    command(0x19, segment('__LINKEDIT', ...linkEdit, 0)),
    command(0x2, table),
    ...(minimum === null ? [] : [command(0x32, words(1, versionOf(minimum), versionOf(minimum), 0))]),
    ...needed.map((name) => command(0xc, words(24, 2, 0, 0), text(name))),
    ...runPaths.map((path) => command(0x8000001c, words(12), text(path))),
    ...(signed ? [command(0x1d, words(end, SECTION_BYTES))] : []),
  ];
}

function segment(name: string, offset: number, size: number, sections: number): Buffer {
  return Buffer.concat([fixed(name), longs(offset, size, offset, size), words(7, 3, sections, 0)]);
}

function sectionHeader(name: string, offset: number): Buffer {
  const address = longs(offset, SECTION_BYTES);
  return Buffer.concat([fixed(name), fixed('__DATA'), address, words(offset, 0, 0, 0, 0, 0, 0, 0)]);
}

function symbolTable({ undefined: wanted, defined }: Library): { symbols: Buffer; names: Buffer } {
  const names: string[] = [''];
  const entry = (name: string, type: number, section: number, description: number): Buffer => {
    const at = names.join('\0').length + 1;
    names.push(name);
    const bytes = Buffer.alloc(SYMBOL_BYTES);
    bytes.writeUInt32LE(at, 0);
    bytes.writeUInt8(type, 4);
    bytes.writeUInt8(section, 5);
    bytes.writeUInt16LE(description, 6);
    return bytes;
  };
  const symbols = [
    ...defined.map((name) => entry(name, 0x0f, 1, 0)),
    ...wanted.map(([name, library]) => entry(name, 0x01, 0, (library === -1 ? DYNAMIC_LOOKUP : library + 1) << 8)),
  ];
  return { symbols: Buffer.concat(symbols), names: padded(text(names.join('\0'))) };
}

function command(type: number, ...parts: readonly Buffer[]): Buffer {
  const body = padded(Buffer.concat(parts));
  return Buffer.concat([words(type, body.length + 8), body]);
}

function words(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, index) => bytes.writeUInt32LE(value, index * 4));
  return bytes;
}

function longs(...values: readonly number[]): Buffer {
  return Buffer.concat(values.map((value) => words(value, 0)));
}

/** A name in 16 bytes. */
function fixed(name: string): Buffer {
  return Buffer.concat([Buffer.from(name), Buffer.alloc(16 - name.length)]);
}

function text(value: string): Buffer {
  return Buffer.from(`${value}\0`);
}

/** Up to a multiple of 8, as commands are. */
function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 7)]);
}

function versionOf(version: string): number {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return (major << 16) | (minor << 8);
}
