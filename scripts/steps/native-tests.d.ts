/** Builds one native test with a sanitizer; returns the path of its program. */
export function buildNativeTest(kind: 'address' | 'thread', name: string): Promise<string>;
