export { type OwnPostgres, type OwnPostgresOptions, type PostgresEnd, startPostgres } from './own-postgres.js';
export { createTestDatabase, type TestDatabase } from './postgres.js';
export { type PostgresPair, startPostgresPair } from './postgres-pair.js';
export {
  describeWithRedis,
  requireRedis,
  startRedis,
  startRunRedis,
  type TestRedis,
  type TestRedisDatabase,
  type TestRedisOptions,
} from './redis.js';
export { type RedisGroup, startRedisCluster, startRedisSentinels } from './redis-group.js';
export { type RunningTestServices, startTestServices } from './start-test-services.js';
export { type TestServices, testServices } from './test-services.js';
