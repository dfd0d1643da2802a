/**
 * The closed set of error codes, with the HTTP status the API answers. Codes are stable: clients switch on them.
 * Codes without a status of their own never reach a client as a response; they travel in events, results and logs.
 */
export const ERROR_CODES = {
  // request
  invalid_request: 422,
  malformed_json: 400,
  unsupported_media_type: 415,
  too_large: 413,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  session_busy: 409,
  session_archived: 409,
  approval_decided: 409,
  idempotency_mismatch: 422,
  idempotency_in_progress: 409,
  rate_limited: 429,
  not_supported: 422,
  // a gate refused
  hook_blocked: 403,
  // a gate could not be asked
  gate_timeout: 503,
  gate_unavailable: 503,
  // a hook broke
  hook_error: 500,
  // tools
  tool_not_found: 404,
  tool_invalid_arguments: 422,
  tool_denied: 403,
  tool_failed: 500,
  tool_timeout: 504,
  tool_outcome_unknown: 500,
  // model providers
  provider_throttled: 502,
  provider_unavailable: 502,
  provider_rejected: 502,
  provider_protocol: 502,
  provider_timeout: 504,
  // ownership of a run
  lease_lost: 409,
  seal_broken: 409,
  run_ended: 409,
  // plugins
  plugin_refused: 422,
  plugin_not_found: 404,
  plugin_unavailable: 503,
  capability_refused: 403,
  // infrastructure
  store_unavailable: 503,
  queue_unavailable: 503,
  config_invalid: 500,
  shutting_down: 503,
  // a bug
  invariant_broken: 500,
} as const;

export type ErrorCode = keyof typeof ERROR_CODES;

/** True for a code of the closed set. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERROR_CODES, text);
}
