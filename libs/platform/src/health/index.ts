export { Health, type HealthCheck, type HealthReport } from './health.js';
export { type OperationsServer, type OperationsServerOptions, startOperationsServer } from './operations-server.js';
