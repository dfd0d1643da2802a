#!/usr/bin/env node
'use strict';
// Built files are not executable; this one is.
require('../dist/migrate-command/main.js');
