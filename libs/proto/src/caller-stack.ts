/**
 * Runs a synchronous call without capturing stacks. grpc-js captures one per unary call, in case it fails, which costs
 * more than everything else a client adds to a small call; who reads only code and details never looks at it.
 */
export function withoutCallerStack<T>(run: () => T): T {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return run();
  } finally {
    Error.stackTraceLimit = limit;
  }
}
