import type { Command } from 'commander';
import { config } from './config.js';

/** An answer of the API that is no success. */
export class ApiFailure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(`${detail} (${code}, HTTP ${status})`);
    this.name = 'ApiFailure';
  }
}

/** Where to talk to, and as whom. */
export interface ApiClient {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON of a successful answer. @throws ApiFailure with the problem's code and detail otherwise. */
  call<T>(method: string, path: string, body?: unknown, more?: Readonly<Record<string, string>>): Promise<T>;
}

/** The client for a command's global options. @throws when there is no API key for the gateway or it cannot be reached. */
export function apiClient(command: Command): ApiClient {
  const { url } = command.optsWithGlobals<{ url: string }>();
  const base = url.replace(/\/+$/, '');
  const headers = { authorization: `Bearer ${config.apiKeyFor(base)}` };
  return {
    url: base,
    headers,
    call: (method, path, body, more) => request(base, { ...headers, ...more }, method, path, body),
  };
}

async function request<T>(
  base: string,
  headers: Readonly<Record<string, string>>,
  method: string,
  path: string,
  body: unknown,
): Promise<T> {
  const response = await fetch(`${base}${path}`, {
    method,
    headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch((cause: unknown) => {
    throw new Error(`The gateway at ${base} cannot be reached. Is it running, and is --url or CODEDOCK_URL right?`, {
      cause,
    });
  });
  if (!response.ok) throw await failureOf(response);
  return parsed(await response.text()) as T;
}

/** What an answer that is no success says. */
export async function failureOf(response: Response): Promise<ApiFailure> {
  const text = await response.text().catch(() => '');
  const problem = parsed(text) as { code?: string; detail?: string; title?: string } | undefined;
  return new ApiFailure(
    response.status,
    problem?.code ?? 'unknown',
    problem?.detail ?? problem?.title ?? (text || response.statusText),
  );
}

function parsed(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
