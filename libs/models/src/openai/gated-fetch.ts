import { AppError, type HttpHeaders, isConnectionHeader, isCredentialHeader, type ModelGates } from '@codedock/domain';
import { type Dispatcher, fetch as send } from 'undici';
import { type HeaderRefusal, judgeHeaders } from '../header-policy.js';

/** What one attempt at the provider leaves behind, beside its response. */
export interface AttemptTrace {
  /** What a gate threw: it ends the call, whatever the client makes of it. */
  gateFailure?: { readonly thrown: unknown; readonly gate: 'headers' | 'request' | 'response' };
}

export interface GatedFetchOptions {
  readonly gates: ModelGates;
  readonly dispatcher: Dispatcher;
  readonly trace: AttemptTrace;
  readonly onRefusedHeaders?: (refused: readonly HeaderRefusal[]) => void;
}

type ClientFetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * The client's fetch with the provider gates in it. Credentials are taken out before the gates and put back after
 * them; the body goes out as the very text the gates answered; redirects are never followed.
 */
export function gatedFetch({ gates, dispatcher, trace, onRefusedHeaders }: GatedFetchOptions): ClientFetch {
  const judge = (before: HttpHeaders, asked: HttpHeaders): HttpHeaders => {
    const { headers, refused } = judgeHeaders(before, asked);
    if (refused.length > 0) onRefusedHeaders?.(refused);
    return headers;
  };
  const asking = async <T>(gate: 'headers' | 'request' | 'response', ask: () => Promise<T>): Promise<T> => {
    try {
      return await ask();
    } catch (thrown) {
      trace.gateFailure = { thrown, gate };
      throw thrown;
    }
  };
  return async (input, init = {}) => {
    const url = String(input instanceof Request ? input.url : input);
    const original = Object.fromEntries(new Headers(init.headers));
    const secret = Object.fromEntries(Object.entries(original).filter(([name]) => isCredentialHeader(name)));
    let headers: HttpHeaders = Object.fromEntries(
      Object.entries(original).filter(([name]) => !isCredentialHeader(name) && !isConnectionHeader(name)),
    );
    let body = typeof init.body === 'string' ? init.body : '';

    const { headers: headerGate, request: requestGate, response: responseGate } = gates;
    if (headerGate) {
      const before = headers;
      headers = judge(before, await asking('headers', () => headerGate(before)));
    }
    if (requestGate) {
      const before = headers;
      const answer = await asking('request', () => requestGate({ headers: before, body }));
      headers = judge(before, answer.headers);
      body = answer.body;
    }
    const response = await send(url, {
      method: init.method ?? 'POST',
      headers: { ...headers, ...secret },
      body,
      redirect: 'manual',
      dispatcher,
      signal: init.signal ?? null,
    });
    if (responseGate) {
      const seen = Object.fromEntries([...response.headers].filter(([name]) => !isCredentialHeader(name)));
      try {
        await asking('response', () => responseGate({ status: response.status, headers: seen }));
      } catch (thrown) {
        await response.body?.cancel().catch(() => undefined);
        throw thrown;
      }
    }
    if (response.status >= 300 && response.status < 400) {
      await response.body?.cancel().catch(() => undefined);
      throw new AppError(
        'provider_rejected',
        'The model provider answered with a redirect, which is not followed: set OPENAI_BASE_URL to the final address.',
      );
    }
    return response as unknown as Response;
  };
}
