'use strict';
// Suites that start processes may take this long per test; a unit test keeps Jest's default.
jest.setTimeout(30_000);
