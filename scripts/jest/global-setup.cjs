'use strict';
// Jest does not apply its module mapping to this phase, so TypeScript is registered by hand.
require('../register-typescript.cjs');

module.exports = require('../../libs/testkit/src/jest/global-setup.ts').default;
