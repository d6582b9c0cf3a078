/** What a macOS library needs and offers, read by Xcode's otool and nm, elsewhere by LLVM's llvm-objdump and llvm-nm. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StepError } from './run.js';

const MOST_OUTPUT = 256 * 1024 ** 2;
const TOOLS =
  process.platform === 'darwin'
    ? { headers: ['otool', '-hlv'], symbols: ['nm', '-m'], from: "Xcode's command-line tools" }
    : { headers: ['llvm-objdump', '--macho', '--private-headers'], symbols: ['llvm-nm', '-m'], from: "Debian's llvm" };
const LOADS = /^LC_(LOAD|LOAD_WEAK|LAZY_LOAD|REEXPORT|LOAD_UPWARD)_DYLIB$/;

/**
 * Returns `{ machine, needed, runPaths, system, minimum, signed, sections, undefined, defined }`: `needed`: install names
 * of libraries; `system`: lower case, macos; `minimum`: its oldest version; `sections`: bytes by name, as
 * __DATA,__ggml_metallib; `undefined`: `[{ name, library }]`, `library`: as nm writes it, libc++ for
 * /usr/lib/libc++.1.dylib, null if it is not bound to one; `defined`: the exported symbols.
 */
export async function readMachO(path) {
  const [headers, symbols] = await Promise.all([output(TOOLS.headers, path), output(TOOLS.symbols, path)]);
  return { ...readHeaders(headers), ...readSymbols(symbols) };
}

async function output([program, ...args], path) {
  try {
    const { stdout } = await promisify(execFile)(program, [...args, path], {
      maxBuffer: MOST_OUTPUT,
      env: { ...process.env, LC_ALL: 'C' },
    });
    return stdout;
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    throw new StepError(`${program} is not installed; the check of a macOS package needs it. Install ${TOOLS.from}.`);
  }
}

function readHeaders(text) {
  const file = {
    machine: /^\s*MH_MAGIC_64\s+(\S+)/m.exec(text)?.[1],
    needed: [],
    runPaths: [],
    system: undefined,
    minimum: undefined,
    signed: false,
    sections: new Map(),
  };
  for (const command of text.split(/^Load command \d+$/m).slice(1)) {
    const field = (name) => new RegExp(`^\\s*${name} +(.+?)(?: \\(offset \\d+\\))?$`, 'm').exec(command)?.[1];
    const type = field('cmd');
    if (LOADS.test(type)) file.needed.push(field('name'));
    else if (type === 'LC_RPATH') file.runPaths.push(field('path'));
    else if (type === 'LC_CODE_SIGNATURE') file.signed = true;
    else if (type === 'LC_BUILD_VERSION') {
      file.system = field('platform')?.toLowerCase();
      file.minimum = field('minos');
    } else if (type === 'LC_SEGMENT_64') readSections(command, file.sections);
  }
  return file;
}

function readSections(command, sections) {
  for (const [, section, segment, size] of command.matchAll(
    /^ *sectname (\S+)\n *segname (\S+)\n *addr \S+\n *size (\S+)$/gm,
  ))
    sections.set(`${segment},${section}`, Number(size));
}

function readSymbols(text) {
  const found = { undefined: [], defined: new Set() };
  //                  (undefined) weak external _dispatch_once_f (from libSystem)
  // 0000000000003f2c (__TEXT,__text) external [no dead strip] _ggml_backend_init
  for (const line of text.split('\n')) {
    const [, place, name, rest] =
      /^[ 0-9a-f]{16} \(([^)]+)\) (?:weak )?external (?:\[[^\]]+\] )*(\S+)(.*)$/.exec(line) ?? [];
    if (name === undefined) continue;
    if (place !== 'undefined') found.defined.add(name);
    else found.undefined.push({ name, library: /\(from (.+)\)$/.exec(rest)?.[1] ?? null });
  }
  return found;
}
