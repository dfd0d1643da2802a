'use strict';
// The suites that need container tools, apart from the others: run.mjs builds the images first.
const { projects } = require('../../jest.config.cjs');

const services = projects.find(({ displayName }) => displayName === 'services');

module.exports = {
  maxWorkers: 1,
  projects: [
    {
      ...services,
      displayName: 'images',
      testMatch: ['<rootDir>/tests/src/images/**/*.int.spec.ts'],
      testPathIgnorePatterns: ['/node_modules/'],
    },
  ],
};
