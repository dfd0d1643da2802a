'use strict';
// The suites against real peers, apart from the others: they need Go and Python, and a build of their own (run.mjs).
const { projects } = require('../../jest.config.cjs');

module.exports = {
  maxWorkers: 2,
  projects: [
    {
      ...projects.find(({ displayName }) => displayName === 'services'),
      displayName: 'interop',
      testMatch: ['<rootDir>/tests/src/interop/**/*.int.spec.ts'],
      testPathIgnorePatterns: ['/node_modules/'],
    },
  ],
};
