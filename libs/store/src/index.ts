export { type HashedApiKey, hashedApiKey, newApiKey } from './api-key.js';
export type * from './contract.js';
export { INSTALLATION } from './installation.js';
export { type Migrated, type MigrateOptions, migrate } from './migrate.js';
export { openStore } from './open-store.js';
export * from './retention-contract.js';
export type * from './secret-contract.js';
export type * from './stream-token-contract.js';
