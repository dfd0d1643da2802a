import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { type AgentProfile, AppError } from '@codedock/domain';
import { parse as parseYaml } from 'yaml';
import { agentProfile, asProfile, profilesFile } from './profile.schema.js';

/** Name of the profile a run gets when the request names none. */
export const DEFAULT_AGENT = 'default';

/** Where the profiles come from. */
export interface ProfileSources {
  /** A YAML or JSON file; absent: the built-in profile alone. */
  readonly file?: string;
  /** Model of the built-in profile when an OpenAI-compatible endpoint is configured; absent: the fake model. */
  readonly openaiModel?: string;
}

/**
 * The installation's agent profiles: the file's, and the built-in `default` unless the file has its own.
 * @throws AppError `config_invalid` naming the file and the place that is wrong.
 */
export async function readProfiles({ file, openaiModel }: ProfileSources): Promise<AgentProfile[]> {
  const own = file === undefined ? [] : parsed(file, await textOf(file));
  return own.some((profile) => profile.name === DEFAULT_AGENT) ? own : [builtIn(openaiModel), ...own];
}

function builtIn(openaiModel: string | undefined): AgentProfile {
  return asProfile(
    agentProfile.parse({
      name: DEFAULT_AGENT,
      description: 'The profile every installation has.',
      systemPrompt: 'You are a careful assistant. Use the tools you are offered when they help.',
      model: openaiModel === undefined ? { provider: 'fake', name: 'fake' } : { provider: 'openai', name: openaiModel },
      tools: ['ping', 'memory_read', 'memory_write', 'memory_search'],
    }),
  );
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new AppError(
      'config_invalid',
      `CODEDOCK_PROFILES_FILE: ${file} cannot be read; give a readable file or unset it.`,
      { cause },
    );
  }
}

function parsed(file: string, text: string): AgentProfile[] {
  const refused = (why: string, cause?: unknown) =>
    new AppError('config_invalid', `CODEDOCK_PROFILES_FILE: ${file} ${why}`, { cause });
  let value: unknown;
  try {
    value = extname(file) === '.json' ? JSON.parse(text) : parseYaml(text, { maxAliasCount: 100 });
  } catch (cause) {
    throw refused(`is neither YAML nor JSON: ${cause instanceof Error ? cause.message : 'unreadable'}`, cause);
  }
  const result = profilesFile.safeParse(value);
  if (result.success) return result.data.agents.map(asProfile);
  const places = result.error.issues.slice(0, 5).map((issue) => `/${issue.path.join('/')}: ${issue.message}`);
  throw refused(`is not valid at ${places.join('; ')}`);
}
