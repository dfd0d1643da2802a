import { readFileSync } from 'node:fs';
import { ConfigError, type ConfigProblem } from './config-error.js';
import { type ComparedValues, findContradictions } from './contradictions.js';
import { nearestName } from './nearest-name.js';
import { type App, listVariables, type Presence, VARIABLES, type Variable, type VariableKey } from './variables.js';

type Variables = typeof VARIABLES;

type ValueOf<V> = V extends Variable<infer T, infer P> ? (P extends 'optional' ? T | undefined : T) : never;

/** Values of the given variables; frozen. Durations are milliseconds, sizes are bytes, secrets are `Secret`. */
export type ConfigOf<K extends VariableKey> = { readonly [Key in K]: ValueOf<Variables[Key]> };

/** The variables that a program reads. */
export type AppVariableKey<A extends App> = {
  [K in VariableKey]: A extends Variables[K]['apps'][number] ? K : never;
}[VariableKey];

/** The whole configuration of one program; frozen. */
export type AppConfig<A extends App> = ConfigOf<AppVariableKey<A>>;

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the configuration of a program once, at its start.
 * @throws ConfigError with every wrong, missing, unknown (`CODEDOCK_*`) or contradicting variable and its remedy.
 */
export function readConfig<A extends App>(app: A, environment: Environment = process.env): AppConfig<A> {
  const keys = listVariables()
    .filter(([, variable]) => variable.apps.includes(app))
    .map(([key]) => key);
  return readVariables(keys as AppVariableKey<A>[], environment);
}

/** Reads some variables; for programs that need only a few. Same checks as `readConfig`. */
export function readVariables<K extends VariableKey>(
  keys: readonly K[],
  environment: Environment = process.env,
): ConfigOf<K> {
  const problems: ConfigProblem[] = unknownNames(environment);
  const values: Record<string, unknown> = {};
  for (const key of keys) {
    values[key] = readOne(VARIABLES[key] as Variable, environment, problems);
  }
  if (problems.length === 0) {
    problems.push(...findContradictions(values as ComparedValues));
  }
  if (problems.length > 0) {
    throw new ConfigError(problems);
  }
  return Object.freeze(values) as ConfigOf<K>;
}

function readOne(variable: Variable, environment: Environment, problems: ConfigProblem[]): unknown {
  const given = givenText(variable, environment, problems);
  if (given === 'unusable') {
    return undefined;
  }
  const source = given ?? { name: variable.name, text: variable.fallback };
  if (source.text === undefined && variable.fallbackFrom !== undefined) {
    const from = listVariables().find(([, each]) => each.name === variable.fallbackFrom)?.[1];
    // What is wrong with the other variable is reported there, unless the program does not read it.
    const inherited = from ? givenText(from, environment, []) : undefined;
    if (inherited === undefined || inherited === 'unusable') {
      report(problems, variable.name, `${variable.name} is not set, nor is ${variable.fallbackFrom}. Set one of them.`);
      return undefined;
    }
    return parse(variable, inherited.name, inherited.text, problems);
  }
  if (source.text === undefined) {
    if (variable.presence === ('required' satisfies Presence)) {
      report(problems, variable.name, `${variable.name} is not set. ${variable.doc}`);
    }
    return undefined;
  }
  return parse(variable, source.name, source.text, problems);
}

function parse(variable: Variable, name: string, text: string, problems: ConfigProblem[]): unknown {
  const result = variable.schema.safeParse(text);
  if (result.success) {
    return result.data;
  }
  const shown = variable.secret
    ? 'has a value that cannot be used (not shown, it is a secret)'
    : `is "${withoutPassword(text)}"`;
  const remedy = result.error.issues.map(({ message }) => message).join('. ');
  report(problems, name, `${name} ${shown}: not a ${variable.kind.replaceAll('\\', '')}. ${remedy}.`);
  return undefined;
}

/** A password in a URL is nobody's to see, whatever variable it was put into. */
function withoutPassword(text: string): string {
  return text.replaceAll(/(\/\/)[^/@\s]+@/g, '$1[redacted]@');
}

interface GivenText {
  readonly name: string;
  readonly text: string;
}

/** What the user gave under any of the variable's names. An empty value counts as not given. */
function givenText(
  variable: Variable,
  environment: Environment,
  problems: ConfigProblem[],
): GivenText | undefined | 'unusable' {
  const found: GivenText[] = [];
  for (const name of namesOf(variable)) {
    const text = environment[name];
    if (text === undefined || text.trim() === '') {
      continue;
    }
    if (!name.endsWith('_FILE') || name === variable.name) {
      found.push({ name, text: text.trim() });
      continue;
    }
    const content = readSecretFile(name, text.trim(), problems);
    if (content === undefined) {
      return 'unusable';
    }
    found.push({ name, text: content });
  }
  const [first, ...others] = found;
  const different = others.find(({ text }) => text !== first?.text);
  if (first && different) {
    report(
      problems,
      first.name,
      `${first.name} and ${different.name} are both set and differ, but mean the same. Remove one of them.`,
    );
    return 'unusable';
  }
  return first;
}

function readSecretFile(name: string, file: string, problems: ConfigProblem[]): string | undefined {
  try {
    const content = readFileSync(file, 'utf8').trim();
    if (content !== '') {
      return content;
    }
    report(problems, name, `${name} is "${file}": the file is empty. Put the secret into it.`);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    report(problems, name, `${name} is "${file}": the file cannot be read (${code}). Check path and rights.`);
  }
  return undefined;
}

function namesOf(variable: Variable): string[] {
  const names = [variable.name, ...variable.aliases];
  return variable.secret ? [...names, ...names.map((name) => `${name}_FILE`)] : names;
}

// Kubernetes puts such names into every pod for a Service called codedock-…; they are no configuration.
const SERVICE_LINK = /_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$/;

function unknownNames(environment: Environment): ConfigProblem[] {
  const known = listVariables().flatMap(([, variable]) => namesOf(variable));
  return Object.keys(environment)
    .filter((name) => name.startsWith('CODEDOCK_') && !known.includes(name) && !SERVICE_LINK.test(name))
    .map((name) => {
      const near = nearestName(name, known);
      const hint = near ? `Did you mean ${near}?` : 'Remove it, or see docs/configuration.md for the names.';
      return { variable: name, message: `${name} is not a variable of CodeDock. ${hint}` };
    });
}

function report(problems: ConfigProblem[], variable: string, message: string): void {
  problems.push({ variable, message });
}
