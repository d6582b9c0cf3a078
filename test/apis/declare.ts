/** Declarations of what svc makes of each field of an API, each with a request that shows it. */
import type { Script } from '../http/scripted.ts';
import type { LlamaRoute } from './llama-fields.ts';
import type { SdkType } from './sdk-fields.ts';

type Body = Readonly<Record<string, unknown>>;

interface Probe {
  readonly name: string;
  /** Value of the field; for one of the field's kinds (`tools[].type = custom`) the object that has it. */
  readonly value: unknown;
  /** Further fields of the request with and without this field. */
  readonly context?: Body;
  /** Fields of the request with this one, instead of its `value` in the last entry of each list on its path. */
  readonly sent?: Body;
}

export type Field = Probe &
  (
    | {
        readonly verdict: 'honoured';
        /** What differs: a field of the request to the backend, or `answer`; `required`: it cannot be left out. */
        readonly at: string;
      }
    /** `param`: field that the error names, if not this one. */
    | { readonly verdict: 'refused'; readonly param?: string }
    /** `why`: a sentence. */
    | { readonly verdict: 'ignored'; readonly why: string }
  );

export interface Api {
  /** Heading in docs/apis.md. */
  readonly title: string;
  readonly path: string;
  /** GET: the fields stand in the query. */
  readonly method?: 'GET' | 'DELETE';
  /** null: the vendor has no SDK; `fields` follow its documentation. */
  readonly sdk: SdkType | null;
  /** What llama-server's source says of the fields. */
  readonly llama?: LlamaRoute;
  /** A valid request. */
  readonly base: Body;
  /** Answer of the backend. Absent: a text. */
  readonly script?: Script;
  /** True: the request is a form, whose Buffers are files. */
  readonly isForm?: boolean;
  /** True: a response is stored, the 32 digits of whose id are written as STORED in the path and in requests. */
  readonly hasStored?: boolean;
  readonly fields: readonly Field[];
}

/** The field changes the request to the backend at `at`, or the answer. */
export function honoured(name: string, at: string, value: unknown, context: Body = {}): Field {
  return { name, verdict: 'honoured', at, value, context };
}

/** As honoured, with the whole of `sent` in the place of `context`. */
export function honouredIn(name: string, at: string, sent: Body, context: Body): Field {
  return { name, verdict: 'honoured', at, value: undefined, context, sent };
}

/** A request cannot do without the field. */
export function needed(name: string): Field {
  return { name, verdict: 'honoured', at: 'required', value: undefined };
}

/** The field is refused with an error that names it, or `param`. */
export function refused(name: string, value: unknown, context: Body = {}, param: string = name): Field {
  return { name, verdict: 'refused', value, context, param };
}

/** The field changes nothing. */
export function ignored(name: string, why: string, value: unknown, context: Body = {}): Field {
  return { name, verdict: 'ignored', why, value, context };
}
