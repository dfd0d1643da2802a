import { CommanderError } from 'commander';
import { printFailure } from './output.js';
import { program } from './program.js';

// Who reads only the beginning, as `head` does, has seen enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

program()
  .parseAsync(process.argv)
  .catch((error: unknown) => {
    // Commander has printed its own message already; its code 0 is --help and --version.
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
    else {
      printFailure(error);
      process.exitCode = 1;
    }
  });
