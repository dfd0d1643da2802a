/** What the set-up of a Jest run provides to its test files. */
export interface TestServices {
  /** Connects as a role that may make and drop databases. */
  readonly adminUrl: string;
  /** Role that owns the test databases. */
  readonly owner: { readonly user: string; readonly password: string };
  /** Migrated database that every test database is a copy of. */
  readonly template: string;
  /** Common prefix of the names of this run's databases. */
  readonly databasePrefix: string;
  readonly redis: { readonly url: string } | { readonly skipped: string };
}

// Not CODEDOCK_*: the services under test refuse variables of that prefix that they do not know.
const VARIABLE = 'TEST_SERVICES';

/** Publishes the services to the workers of this run; Jest hands them its environment. */
export function publishTestServices(services: TestServices | undefined): void {
  if (services) {
    process.env[VARIABLE] = JSON.stringify(services);
  } else {
    delete process.env[VARIABLE];
  }
}

/** The services of this run. @throws outside the Jest project `services`. */
export function testServices(): TestServices {
  const text = process.env[VARIABLE];
  if (text === undefined) {
    throw new Error('No test services: name the file *.int.spec.ts, so that it runs in the Jest project "services".');
  }
  return JSON.parse(text) as TestServices;
}
