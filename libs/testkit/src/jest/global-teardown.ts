import { keepRunServices, keptRunServices } from './run-services.js';

/** Ends what the set-up of this run started. */
export default async function globalTeardown(): Promise<void> {
  await keptRunServices()?.stop();
  keepRunServices(undefined);
}
