import { isJsonObject, type JsonValue } from '@codedock/domain';

/** What a `match` is evaluated against. */
export interface MatchSubject {
  readonly tenant: string;
  readonly agent: string;
  /** Empty where the request names none. */
  readonly mode: string;
  /** Absent at gates that are not about a tool: `tools` then does not restrict. */
  readonly tool?: string;
}

/** Whether a plugin is asked for a subject. Undefined = always. */
export type Match = (subject: MatchSubject) => boolean;

/**
 * Compiles plugin.json's `match` (`{tenants?, agents?, modes?, tools?}`, lists of globs in which `*` is any text and `?`
 * one character). All lists that are present must hold; an empty list holds for nothing. Undefined for no restriction.
 * A `match` that cannot be read restricts nothing: the plugin is asked rather than left out.
 */
export function compileMatch(json: string): Match | undefined {
  if (json === '') return undefined;
  let value: JsonValue;
  try {
    value = JSON.parse(json) as JsonValue;
  } catch {
    return undefined;
  }
  if (!isJsonObject(value)) return undefined;
  const tenants = anyOf(value['tenants']);
  const agents = anyOf(value['agents']);
  const modes = anyOf(value['modes']);
  const tools = anyOf(value['tools']);
  if (!tenants && !agents && !modes && !tools) return undefined;
  return (subject) =>
    (tenants === undefined || tenants(subject.tenant)) &&
    (agents === undefined || agents(subject.agent)) &&
    (modes === undefined || modes(subject.mode)) &&
    (tools === undefined || subject.tool === undefined || tools(subject.tool));
}

function anyOf(globs: JsonValue | undefined): ((text: string) => boolean) | undefined {
  if (!Array.isArray(globs)) return undefined;
  const exact = new Set<string>();
  const patterns: RegExp[] = [];
  for (const glob of globs) {
    if (typeof glob !== 'string') continue;
    if (/[*?]/.test(glob)) patterns.push(globPattern(glob));
    else exact.add(glob);
  }
  if (patterns.length === 0) return (text) => exact.has(text);
  return (text) => exact.has(text) || patterns.some((pattern) => pattern.test(text));
}

// Runs of stars are one star. Matched texts are short names, so backtracking stays polynomial and small.
function globPattern(glob: string): RegExp {
  const source = glob
    .replace(/\*+/g, '*')
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('?', '.')
    .replaceAll('*', '.*');
  return new RegExp(`^${source}$`, 'su');
}
