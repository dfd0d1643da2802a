'use strict';
// Helm on a loaded machine: a test with several releases takes its time.
jest.setTimeout(240_000);
