import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { LocalInstallation } from './local-installation.js';

const here = new LocalInstallation(process.env.CODEDOCK_DATA_DIR || '.codedock');
/** Where `npm start` of the clone this command belongs to keeps its data. */
const ofClone = new LocalInstallation(join(__dirname, '../../../.codedock'));
const local = process.env.CODEDOCK_DATA_DIR || here.url !== undefined ? here : ofClone;

/** The whole environment, for judging it as a service would, and for programs that the command starts. */
export const environment: Readonly<Record<string, string | undefined>> = process.env;

/**
 * What the command reads from its environment; secrets come from there so that they show up in no process list. What is
 * not set is that of the installation that `npm start` runs: from CODEDOCK_DATA_DIR, from this folder, else in the clone.
 */
export const config = {
  /** Gateway to talk to. */
  url: process.env.CODEDOCK_URL || local.url || 'http://127.0.0.1:8080',
  /** Where a running `npm start -- --traces` keeps its traces. @throws when there is none. */
  get tracesUrl(): string {
    if (local.tracesUrl !== undefined) return local.tracesUrl;
    throw new Error('No traces are kept here: run this in the folder of a running `npm start -- --traces`.');
  },
  /** Plugin root of that installation for plugins that are being written. */
  pluginRoot: local.pluginRoot,
  /** @throws when there is no key for this gateway. */
  apiKeyFor(url: string): string {
    return required(
      'CODEDOCK_API_KEY',
      'Put an API key there; `codedock keys create` makes one.',
      local.apiKeyFor(url),
    );
  },
  /** The key for this gateway, where there is one. */
  knownApiKey(url: string): string | undefined {
    return value('CODEDOCK_API_KEY', local.apiKeyFor(url));
  },
  /** @throws when DATABASE_URL is not set and no embedded database runs. */
  async databaseUrl(): Promise<string> {
    return required(
      'DATABASE_URL',
      'Give the PostgreSQL URL of the installation, or run this in the folder of a running `npm start`.',
      await local.databaseUrl(),
    );
  },
};

function required(name: string, remedy: string, otherwise: string | undefined): string {
  const found = value(name, otherwise);
  if (!found) throw new Error(`${name} is not set. ${remedy}`);
  return found;
}

function value(name: string, otherwise: string | undefined): string | undefined {
  const file = process.env[`${name}_FILE`];
  return process.env[name] || (file ? readFileSync(file, 'utf8').trim() : undefined) || otherwise;
}
