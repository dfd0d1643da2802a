'use strict';
// The suites against real peers, apart from the others: they need Go and Python, and a build of their own (run.mjs).
const { projects } = require('../../jest.config.cjs');

const {
  globalSetup: _,
  globalTeardown: __,
  ...services
} = projects.find(({ displayName }) => displayName === 'services');

module.exports = {
  maxWorkers: 2,
  projects: [
    {
      ...services,
      displayName: 'interop',
      testMatch: ['<rootDir>/tests/src/interop/**/*.int.spec.ts'],
      testPathIgnorePatterns: ['/node_modules/'],
    },
  ],
};
