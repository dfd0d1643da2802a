import { type Port, ports } from '@codedock/proto';
import type { ChainView, ViewSubscriber } from './chain-view.js';

/** A plugin that replicas do not ask in the same way on a port. */
export interface ChainDifference {
  readonly port: Port;
  readonly plugin: string;
  /** Every replica that serves, in the order of their addresses. */
  readonly replicas: readonly {
    /** Its address. */
    readonly replica: string;
    /** Absent: it does not ask the plugin on this port. Empty: the plugin has named none. */
    readonly version?: string;
  }[];
}

/** Compares what replicas ask: plugins, their code and configuration, matches, policies and budgets; not whether they are up. */
export function chainDifferences(
  views: readonly { readonly replica: string; readonly view: ChainView }[],
): readonly ChainDifference[] {
  if (views.length < 2) return [];
  return ports.flatMap((port) => {
    const plugins = new Set(views.flatMap(({ view }) => (view.ports.get(port) ?? []).map(({ plugin }) => plugin)));
    return [...plugins].flatMap((plugin): ChainDifference[] => {
      const asked = views.map(({ replica, view }) => ({
        replica,
        by: view.ports.get(port)?.find((one) => one.plugin === plugin),
      }));
      if (new Set(asked.map(({ by }) => questionOf(by))).size < 2) return [];
      const replicas = asked.map(({ replica, by }) => ({
        replica,
        ...(by === undefined ? {} : { version: by.version }),
      }));
      return [{ port, plugin, replicas }];
    });
  });
}

function questionOf(one: ViewSubscriber | undefined): string {
  if (one === undefined) return '';
  return JSON.stringify([one.policy, one.version, one.matchJson, one.failurePolicy, one.budgetMs]);
}
