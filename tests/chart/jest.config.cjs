'use strict';
// The suites of the Helm chart, apart from the others: they need helm, which run.mjs brings.
const { join } = require('node:path');
const { projects } = require('../../jest.config.cjs');

const services = projects.find(({ displayName }) => displayName === 'services');
const root = join(__dirname, '../..');

module.exports = {
  rootDir: root,
  maxWorkers: 2,
  projects: [
    {
      ...services,
      displayName: 'chart',
      testMatch: ['<rootDir>/tests/src/chart/**/*.spec.ts'],
      testPathIgnorePatterns: ['/node_modules/'],
    },
  ],
};
