/** What the console has besides the public API: signing a browser in, and the catalogue against this machine. */

/** A link that signs a browser in, once. */
export interface ConsoleLink {
  /** `http://127.0.0.1:7117/#signin=TOKEN`: browsers do not send what follows `#`. */
  readonly url: string;
  /** RFC 3339. */
  readonly expires_at: string;
  /**
   * A file of this user alone that leads a browser to the link, so that no command line contains the token; removed
   * once the link has been used or has expired. null: none was requested.
   */
  readonly file: string | null;
}

/** A key of scope admin that lives in the daemon's memory. */
export interface SessionKey {
  readonly key: string;
  /** RFC 3339. */
  readonly expires_at: string;
}

/** A model of the catalogue, against this machine. */
export interface CatalogueModel {
  readonly name: string;
  readonly parameters_billions: number;
  readonly quantization: string;
  /** Estimated size of the download. */
  readonly bytes: number;
  readonly context_length: number;
  readonly license: string;
  readonly good_at: string;
  /** False if memory or disk do not suffice. */
  readonly fits: boolean;
  /** Why it does not fit. */
  readonly why?: string;
  readonly installed: boolean;
}
