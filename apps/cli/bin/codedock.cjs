#!/usr/bin/env node
'use strict';
const { existsSync } = require('node:fs');
const { join } = require('node:path');

const program = join(__dirname, '../dist/main.js');
if (existsSync(program)) {
  require(program);
} else {
  console.error('The codedock command is not built yet. Run `npm run build` (or `npm start`), then try again.');
  process.exitCode = 1;
}
