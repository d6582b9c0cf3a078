/** Signing a browser in to the console. */

/** A link that signs a browser in, once. */
export interface ConsoleLink {
  /** `http://127.0.0.1:7117/#signin=TOKEN`: browsers do not send what follows `#`. */
  readonly url: string;
  /** RFC 3339. */
  readonly expires_at: string;
  /**
   * A file of this user alone that leads a browser to the link, so that no command line contains the token; removed
   * once the link has been used or has expired. null: none was asked for.
   */
  readonly file: string | null;
}

/** What the page sends after it has taken the token out of the address bar. */
export interface SignInRequest {
  readonly token: string;
}

/** A key of scope admin that lives in the daemon's memory. */
export interface SessionKey {
  readonly key: string;
  /** RFC 3339. */
  readonly expires_at: string;
}
