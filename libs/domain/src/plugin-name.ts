const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** Whether a plugin, and so its folder, can have this name: 1 to 63 lower-case letters, digits and "-", not "-" first. */
export function isPluginName(text: string): boolean {
  return NAME.test(text);
}
