/** An answer of the gateway. */
export interface Answer<T = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed JSON; undefined for an empty body. */
  readonly body: T;
}

/** How one request differs from the default. */
export interface RequestOptions {
  /** Another key than the system's first; `null` sends none. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is instead of JSON. */
  readonly raw?: string | Uint8Array;
  /** Gives the request up. */
  readonly signal?: AbortSignal;
}

/** Speaks JSON with a gateway. */
export type Api = <T = Record<string, unknown>>(
  method: string,
  path: string,
  body?: unknown,
  options?: RequestOptions,
) => Promise<Answer<T>>;

/** A client of the gateway at `url` that sends `key` unless told otherwise. */
export function apiOf(url: string, key: string): Api {
  return async <T>(method: string, path: string, body?: unknown, options: RequestOptions = {}): Promise<Answer<T>> => {
    const bearer = options.key === undefined ? key : options.key;
    const payload = options.raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        // A pooled connection would outlive the suite.
        connection: 'close',
        ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
        ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(payload === undefined ? {} : { body: payload }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    const text = await response.text();
    return {
      status: response.status,
      headers: response.headers,
      body: (text === '' ? undefined : JSON.parse(text)) as T,
    };
  };
}
