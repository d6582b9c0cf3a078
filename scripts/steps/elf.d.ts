/** As elf.js, which returns what the library needs and offers. */
export function readElf(path: string): Promise<object>;
