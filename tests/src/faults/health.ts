import type { FaultSystem } from './fault-system.js';

/** What one probe of one process answered; undefined when nobody answers there. */
async function probe(at: string, path: string): Promise<number | undefined> {
  try {
    const answer = await fetch(`http://${at}${path}`, {
      signal: AbortSignal.timeout(30_000),
      headers: { connection: 'close' },
    });
    await answer.arrayBuffer();
    return answer.status;
  } catch {
    return undefined;
  }
}

/** Statuses of the probes of the processes that live, by service. */
export interface SeenHealth {
  readonly gateways: readonly (number | undefined)[];
  readonly runners: readonly (number | undefined)[];
  readonly pluginHosts: readonly (number | undefined)[];
}

/** Asks the living ones of some processes. */
function ask(system: FaultSystem, processes: FaultSystem['runners'], path: '/healthz' | '/readyz') {
  const addresses = processes.filter((each) => !each.hasExited()).flatMap((each) => system.probesAt(each) ?? []);
  return Promise.all(addresses.map((address) => probe(address, path)));
}

/** Asks every living process. */
export async function healthOf(system: FaultSystem, path: '/healthz' | '/readyz'): Promise<SeenHealth> {
  const [gateways, runners, pluginHosts] = await Promise.all([
    ask(system, system.gateways, path),
    ask(system, system.runners, path),
    ask(system, system.pluginHosts, path),
  ]);
  return { gateways, runners, pluginHosts };
}

/** Throws unless every living process answers that it is alive: a store that is away is no reason to restart anything. */
export async function expectAlive(system: FaultSystem): Promise<void> {
  const { gateways, runners, pluginHosts } = await healthOf(system, '/healthz');
  const wrong = [...gateways, ...runners, ...pluginHosts].filter((status) => status !== 200);
  if (wrong.length > 0) throw new Error(`/healthz answered ${wrong.map((status) => status ?? 'nothing').join(', ')}`);
}

/** Throws unless every living gateway answers `/readyz` with `status`. */
export async function expectGatewaysReady(system: FaultSystem, status: 200 | 503): Promise<void> {
  // Gateways alone: a runner may stand still and answer nobody.
  const gateways = await ask(system, system.gateways, '/readyz');
  const wrong = gateways.filter((seen) => seen !== status);
  if (wrong.length > 0)
    throw new Error(`/readyz answered ${wrong.map((seen) => seen ?? 'nothing').join(', ')}; right is ${status}`);
}
