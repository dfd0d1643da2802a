/** The value of an option that takes JSON. @throws naming the option. */
export function parsedJson(option: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`${option} takes JSON, such as '{"amount": 10}'; quote it for your shell.`, { cause });
  }
}
