import { InvalidArgumentError } from 'commander';

/** Languages that `codedock plugin new` has a template for. */
export const languages = ['typescript', 'go', 'python', 'shell'] as const;

/** One of them. */
export type Language = (typeof languages)[number];

const otherNames: Readonly<Record<string, Language>> = { ts: 'typescript', golang: 'go', py: 'python', sh: 'shell' };

/** The language an option names. @throws InvalidArgumentError naming those there are. */
export function parseLanguage(text: string): Language {
  const name = text.toLowerCase();
  const language = languages.find((known) => known === name) ?? otherNames[name];
  if (language !== undefined) return language;
  throw new InvalidArgumentError(`There is no template for "${text}"; choose one of ${languages.join(', ')}.`);
}
