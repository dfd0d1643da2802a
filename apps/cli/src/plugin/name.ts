import { isPluginName } from '@codedock/domain';

/** Checks what a plugin, and so its folder, is to be called. @throws Error with the rule, and a name that keeps to it. */
export function requirePluginName(name: string): void {
  if (isPluginName(name)) return;
  const better = name
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 63);
  const hint = isPluginName(better) ? `, such as ${better}` : '';
  throw new Error(
    `"${name}" is no plugin name: take lower-case letters, digits and "-", not "-" first, at most 63 characters${hint}.`,
  );
}
