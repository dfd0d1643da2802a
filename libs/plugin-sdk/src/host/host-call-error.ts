/** A call back into the host that was refused or failed. `code` is the name of the gRPC status, e.g. `PERMISSION_DENIED`. */
export class HostCallError extends Error {
  override readonly name = 'HostCallError';

  constructor(
    /** Method of the host, e.g. `AppendNotice`. */
    readonly method: string,
    readonly code: string,
    text: string,
  ) {
    super(`${method}: ${text}`);
  }
}
