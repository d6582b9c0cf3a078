/** Returns the folder of the llama.cpp source at the commit of the pinned package. */
export function llamaSource(): Promise<string>;
