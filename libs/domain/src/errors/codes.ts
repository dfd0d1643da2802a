/**
 * The closed set of error codes, with the HTTP status the API answers. Codes are stable: clients switch on them.
 * Codes without a status of their own never reach a client as a response; they travel in events, results and logs.
 */
export const ERROR_CODES = {
  // request
  /** A field, parameter or header is wrong; `errors` names each path. */
  invalid_request: 422,
  /** The body is not JSON of the announced length. */
  malformed_json: 400,
  /** The body is not `application/json`. */
  unsupported_media_type: 415,
  /** The body is larger than 1 MiB. */
  too_large: 413,
  /** The API key is missing, unknown, expired or revoked. */
  unauthenticated: 401,
  /** The key lacks the scope, or may not do this to this thing. */
  forbidden: 403,
  /** No such thing for this tenant, or no such address. */
  not_found: 404,
  /** The address exists for other methods; see `Allow`. */
  method_not_allowed: 405,
  /** The thing exists already, or changed in between. */
  conflict: 409,
  /** A run of the session is active; wait, or send `onBusy`. */
  session_busy: 409,
  /** The session takes no further input. */
  session_archived: 409,
  /** Another decision was made before. */
  approval_decided: 409,
  /** The key was used with another body. */
  idempotency_mismatch: 422,
  /** The first request with this key is still being worked on; send it again after `Retry-After`. */
  idempotency_in_progress: 409,
  /** Too many in too short a time; send it again after `Retry-After`. */
  rate_limited: 429,
  /** A known field that this version does not act on; refused instead of ignored. */
  not_supported: 422,
  // a gate refused
  /** A policy refused the input; `detail` is its reason. Nothing was created. */
  hook_blocked: 403,
  // a gate could not be asked
  /** A policy did not answer in time, so the gate could not be asked. Nothing was created. */
  gate_timeout: 503,
  /** A policy is down or answered nonsense, so the gate could not be asked. Nothing was created. */
  gate_unavailable: 503,
  // a hook broke
  /** An in-process hook threw. */
  hook_error: 500,
  // tools
  /** The model asked for a tool the run does not have. */
  tool_not_found: 404,
  /** The arguments do not match the schema of the tool. */
  tool_invalid_arguments: 422,
  /** The profile, a policy or a person said no. */
  tool_denied: 403,
  /** The tool reported a failure. */
  tool_failed: 500,
  /** The tool took longer than its limit. */
  tool_timeout: 504,
  /** The tool was called and no outcome came back. */
  tool_outcome_unknown: 500,
  // model providers
  /** The model provider limits the rate; tried again before. */
  provider_throttled: 502,
  /** The model provider cannot be reached or fails; tried again before. */
  provider_unavailable: 502,
  /** The model provider refuses the request. */
  provider_rejected: 502,
  /** The model provider sent what its API does not allow. */
  provider_protocol: 502,
  /** The model provider was silent for too long. */
  provider_timeout: 504,
  // ownership of a run
  /** Another runner, or the cancel of the run, has taken it over. */
  lease_lost: 409,
  /** What was approved is not what would be executed. */
  seal_broken: 409,
  /** The run is over. */
  run_ended: 409,
  // plugins
  /** The plugin cannot be used: its folder, handshake or description is wrong. */
  plugin_refused: 422,
  /** No plugin has this name. */
  plugin_not_found: 404,
  /** The plugin does not run at the moment. */
  plugin_unavailable: 503,
  /** The plugin may not do this, or no longer. */
  capability_refused: 403,
  // infrastructure
  /** The database cannot be asked; send it again. */
  store_unavailable: 503,
  /** The queue cannot be asked. */
  queue_unavailable: 503,
  /** A setting is wrong; the message names it and the remedy. */
  config_invalid: 500,
  /** This process is stopping; send it again, another one answers. */
  shutting_down: 503,
  // a bug
  /** A bug; the log holds the cause under the id in `instance`. */
  invariant_broken: 500,
} as const;

/** A code of the closed set. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** True for a code of the closed set. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERROR_CODES, text);
}
