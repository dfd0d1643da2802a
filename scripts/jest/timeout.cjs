'use strict';
// Only ends what hangs: what a test waits for has limits of its own, and a busy machine is no failure.
jest.setTimeout(120_000);
