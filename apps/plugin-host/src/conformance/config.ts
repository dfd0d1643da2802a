/** The variables the tool was started with; a plugin gets of them what it would get from a plugin-host. */
export const environment: Readonly<Record<string, string | undefined>> = process.env;
