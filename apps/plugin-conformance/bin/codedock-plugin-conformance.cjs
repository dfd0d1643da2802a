#!/usr/bin/env node
'use strict';
const { existsSync } = require('node:fs');
const { join } = require('node:path');

const program = join(__dirname, '../dist/main.cjs');
if (existsSync(program)) {
  require(program);
} else {
  process.stderr.write('The command is not built yet. Run `npm run build`, then try again.\n');
  process.exitCode = 1;
}
