export { openTestStore, TEST_CONFIG, TestTenant, testEvent, testRecord, testTenant } from './store-fixture.js';
