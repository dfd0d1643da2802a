import { spawn } from 'node:child_process';
import path from 'node:path';
import type { KubeObject } from './kubernetes/server-side-apply.js';

const program = path.resolve(__dirname, '../../chart/check-objects.mjs');

/** What strict field validation finds, per object: unknown fields, wrong types, missing and wrong values. */
export async function fieldProblems(objects: readonly KubeObject[]): Promise<string[][]> {
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(objects));
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  const code = await new Promise((resolve) => child.on('close', resolve));
  if (code !== 0) throw new Error(`check-objects.mjs ended with ${code}`);
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as string[][];
}
