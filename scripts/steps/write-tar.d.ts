export interface TarOptions {
  readonly owners?: Readonly<Record<string, number>>;
  readonly seconds?: number;
}

export function tarOf(folder: string, options?: TarOptions): Promise<Buffer>;
