export { EmbeddedPostgresError } from './errors.js';
export {
  type EmbeddedPostgres,
  type EmbeddedPostgresAddress,
  type EmbeddedPostgresOptions,
  findEmbeddedPostgres,
  startEmbeddedPostgres,
} from './start-embedded-postgres.js';
