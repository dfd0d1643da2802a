export type * from './contract.js';
export { INSTALLATION } from './installation.js';
export { type Migrated, type MigrateOptions, migrate } from './migrate.js';
export { openStore } from './open-store.js';
