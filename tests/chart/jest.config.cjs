'use strict';
// The suites of the Helm chart, apart from the others: they need helm, which run.mjs brings.
const { projects } = require('../../jest.config.cjs');

const services = projects.find(({ displayName }) => displayName === 'services');

module.exports = {
  maxWorkers: 2,
  projects: [
    {
      ...services,
      displayName: 'chart',
      setupFilesAfterEnv: ['<rootDir>/tests/chart/timeout.cjs'],
      testMatch: ['<rootDir>/tests/src/chart/**/*.spec.ts'],
      testPathIgnorePatterns: ['/node_modules/'],
    },
  ],
};
