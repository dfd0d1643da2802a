import type { Tenant } from '@codedock/store';
import { Command } from 'commander';
import { print, table } from '../output.js';
import { withStore } from '../with-store.js';

interface LimitOptions {
  readonly maxConcurrentRuns?: string;
  readonly requestsPerSecond?: string;
}

const LARGEST = 1_000_000;

/** `codedock tenants list|limit`: works on the database itself, since no key of a tenant may lift its limits. */
export function tenantsCommand(): Command {
  const tenants = new Command('tenants').description(
    'Tenants and their limits. Works on the database itself: DATABASE_URL, else that of a running `npm start`.',
  );

  tenants
    .command('list')
    .description('all tenants')
    .action(async (_options: unknown, command: Command) => {
      const all = await withStore((store) => store.tenants.list());
      print(command, { items: all }, () => table(HEADINGS, all.map(rowOf)));
    });

  tenants
    .command('limit')
    .description('change the limits that are named')
    .argument('<name>', 'tenant')
    .option('--max-concurrent-runs <n>', 'runs queued or running at the same time; `none`: any number')
    .option('--requests-per-second <n>', 'requests that each gateway answers a second; `none`: the default')
    .action(async (name: string, options: LimitOptions, command: Command) => {
      const limits = {
        ...limit('maxConcurrentRuns', '--max-concurrent-runs', options.maxConcurrentRuns),
        ...limit('requestsPerSecond', '--requests-per-second', options.requestsPerSecond),
      };
      if (Object.keys(limits).length === 0)
        throw new Error('Name a limit: --max-concurrent-runs, --requests-per-second.');
      const changed = await withStore(async (store) => {
        const tenant = await store.tenants.findByName(name);
        if (tenant === undefined) throw new Error(`There is no tenant "${name}"; \`codedock tenants list\` shows all.`);
        return store.tenants.setLimits(tenant.id, limits);
      });
      print(command, changed, () => table(HEADINGS, [rowOf(changed)]));
    });

  return tenants;
}

const HEADINGS = ['tenant', 'concurrent runs', 'requests per second'];

function rowOf({ name, maxConcurrentRuns, requestsPerSecond }: Tenant): string[] {
  return [name, String(maxConcurrentRuns ?? 'any number'), String(requestsPerSecond ?? 'default')];
}

function limit<K extends string>(name: K, option: string, text: string | undefined): { [P in K]?: number | null } {
  if (text === undefined) return {};
  const value = text === 'none' ? null : Number(text);
  if (value !== null && !(Number.isInteger(value) && value > 0 && value <= LARGEST)) {
    throw new Error(`${option} takes a whole number from 1 to ${LARGEST}, or none.`);
  }
  return { [name]: value } as { [P in K]?: number | null };
}
