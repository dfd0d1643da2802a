import { AppError, LEDGER_EVENT_TYPES } from '@codedock/domain';
import type { Logger } from '@codedock/platform';
import { portSpec } from '@codedock/plugin-bridge';
import { isPort, type plugin } from '@codedock/proto';

const protocolMajor = 1;
const ledgerEvents: ReadonlySet<string> = new Set(LEDGER_EVENT_TYPES);

/** Refuses what cannot be meant, drops what plugins never get. @throws AppError `plugin_refused`. */
export function checkedManifest(manifest: plugin.Manifest, log: Logger): plugin.Manifest {
  if (manifest.protocolMajor > protocolMajor) {
    throw new AppError(
      'plugin_refused',
      `it speaks plugin protocol ${manifest.protocolMajor}, this host speaks ${protocolMajor}; install a build for this host`,
    );
  }
  for (const name of manifest.subscriptions) {
    if (name.includes('/') && !isPort(name))
      throw new AppError('plugin_refused', `it subscribes to the unknown port "${name}"; correct its subscriptions`);
    if (name === 'assistant.delta') log.warn('a plugin subscribes to assistant.delta, which plugins never get');
    else if (!isPort(name) && !ledgerEvents.has(name))
      log.info(
        { event: name },
        'a plugin subscribes to an event that is none of the ledger; it can only come from other plugins',
      );
  }
  for (const [port, policy] of Object.entries(manifest.portFailurePolicy)) {
    if (!isPort(port)) throw new AppError('plugin_refused', `its port_failure_policy names the unknown port "${port}"`);
    if (policy !== 'open' && policy !== 'closed')
      throw new AppError('plugin_refused', `its port_failure_policy of ${port} is "${policy}"; use "open" or "closed"`);
    if (policy === 'open' && portSpec(port).failureDefault === 'closed')
      throw new AppError(
        'plugin_refused',
        `its port_failure_policy of ${port} is "open", which would loosen a veto port; a plugin can only tighten`,
      );
  }
  return {
    ...manifest,
    subscriptions: [...new Set(manifest.subscriptions)].filter((name) => name !== 'assistant.delta'),
  };
}
