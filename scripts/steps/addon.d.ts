export interface NativeInputs {
  readonly inputs: readonly string[];
  readonly facts: readonly unknown[];
}
export function nativeInputs(): Promise<NativeInputs>;
