'use strict';
const { existsSync } = require('node:fs');
const { join } = require('node:path');

const typescript = {
  jsc: {
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
    target: 'es2022',
    keepClassNames: true,
  },
  module: { type: 'commonjs' },
  sourceMaps: 'inline',
};

const shared = {
  rootDir: __dirname,
  testEnvironment: 'node',
  transform: { '^.+\\.ts$': ['@swc/jest', typescript] },
  moduleFileExtensions: ['ts', 'js', 'cjs', 'mjs', 'json', 'node'],
  moduleNameMapper: {
    '^(\\.{1,2}/.*)\\.js$': '$1',
    '^@codedock/plugin-sdk/testing$': '<rootDir>/libs/plugin-sdk/src/testing/index.ts',
    '^@codedock/plugin-host$': '<rootDir>/apps/plugin-host/src/index.ts',
    '^@codedock/([^/]+)$': '<rootDir>/libs/$1/src/index.ts',
  },
  modulePathIgnorePatterns: ['/dist/', '<rootDir>/.nx/', '<rootDir>/.codedock/', '<rootDir>/tools/'],
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/apps/console/'],
  setupFilesAfterEnv: ['<rootDir>/scripts/jest/timeout.cjs'],
  restoreMocks: true,
};

const servicesSetup = (name) => {
  const file = join(__dirname, 'libs/testkit/src/jest', `${name}.ts`);
  return existsSync(file)
    ? { [name === 'global-setup' ? 'globalSetup' : 'globalTeardown']: join(__dirname, 'scripts/jest', `${name}.cjs`) }
    : {};
};

module.exports = {
  maxWorkers: 2,
  projects: [
    {
      ...shared,
      displayName: 'unit',
      testMatch: ['<rootDir>/{apps,libs,plugin,examples,tests}/**/*.spec.ts'],
      testPathIgnorePatterns: [
        ...shared.testPathIgnorePatterns,
        '\\.int\\.spec\\.ts$',
        // They need helm: tests/chart/run.mjs runs them.
        '<rootDir>/tests/src/chart/',
      ],
    },
    {
      ...shared,
      displayName: 'services',
      testMatch: ['<rootDir>/{apps,libs,plugin,examples,tests}/**/*.int.spec.ts'],
      // They need Go and Python, helm, or container tools, and have a command of their own.
      testPathIgnorePatterns: [
        ...shared.testPathIgnorePatterns,
        '<rootDir>/tests/src/interop/',
        '<rootDir>/tests/src/chart/',
        '<rootDir>/tests/src/images/',
      ],
      ...servicesSetup('global-setup'),
      ...servicesSetup('global-teardown'),
    },
  ],
};
