export const platforms: Readonly<Record<string, unknown>>;
export function packageName(platform: string): string;
export function restrictions(platform: string): { os: string[]; cpu: string[]; libc?: string[] };
export function platformNamed(name: string): string;
