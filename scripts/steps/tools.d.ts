export const BUILT_ON_LINUX: string;
export function requireTools(): Promise<void>;
