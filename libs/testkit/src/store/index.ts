export { awaitHorizon } from './horizon.js';
export { type RecordedPorts, recordedPorts } from './run-ports.js';
export {
  createTestStore,
  TEST_CONFIG,
  TEST_SEAL,
  type TestRun,
  TestTenant,
  testEvent,
  testRecord,
  testTenant,
} from './store-fixture.js';
