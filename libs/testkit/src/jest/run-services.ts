/** What the set-up of this Jest run started, for its tear-down in the same process. */
export interface RunServices {
  stop(): Promise<void>;
}

const KEY = Symbol.for('codedock.testkit.run-services');

/** Keeps (or, without a value, forgets) the running services. Set-up and tear-down may be loaded as separate modules. */
export function keepRunServices(services: RunServices | undefined): void {
  (globalThis as Record<symbol, unknown>)[KEY] = services;
}

/** What was kept. */
export function keptRunServices(): RunServices | undefined {
  return (globalThis as Record<symbol, unknown>)[KEY] as RunServices | undefined;
}
