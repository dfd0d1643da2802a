import type { RunConfig } from './profile.js';

/** What decides which tools a model is offered. */
export interface ToolOffer<T extends { readonly name: string }> {
  readonly config: Pick<RunConfig, 'tools' | 'deniedTools'>;
  /** A tool the profile may list, by name; undefined when there is none. */
  readonly own: (name: string) => T | undefined;
  /** Tools of plugins. One that has the name of an own tool is not offered. */
  readonly plugins: readonly T[];
  /** Names of the tools set active for the session; undefined = none were set: all are active. */
  readonly active: readonly string[] | undefined;
}

/**
 * The tools a model is offered, in a stable order: those the profile lists, whatever is active, then the plugins' that
 * are active; none that the profile denies.
 */
export function offeredTools<T extends { readonly name: string }>(offer: ToolOffer<T>): T[] {
  const denied = new Set(offer.config.deniedTools);
  const active = offer.active === undefined ? undefined : new Set(offer.active);
  const listed = [...new Set(offer.config.tools)].flatMap((name) => offer.own(name) ?? []);
  const others = offer.plugins.filter(({ name }) => offer.own(name) === undefined && (active?.has(name) ?? true));
  return [...listed, ...others].filter(({ name }) => !denied.has(name));
}
