import { spawn } from 'node:child_process';
import { root } from './root.mjs';

/** Runs a command in the clone and resolves when it exits with 0; its output is shown only when it fails. */
export function runCommand(command, args, { label, env = {} }) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const output = [];
    child.stdout.on('data', (chunk) => output.push(chunk));
    child.stderr.on('data', (chunk) => output.push(chunk));
    child.on('error', (error) => reject(new Error(`${label} could not be started: ${error.message}`)));
    child.on('close', (code, signal) => {
      if (code === 0) return resolve();
      const tail = Buffer.concat(output).toString('utf8').trimEnd().split('\n').slice(-40).join('\n');
      reject(new Error(`${label} ended with ${signal ?? `exit code ${code}`}:\n${tail}`));
    });
  });
}
