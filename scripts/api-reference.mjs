/**
 * Writes docs/api-reference.md: routes from the gateway's controllers, states from the built domain, event payloads and
 * error codes from the domain's sources and their docstrings. With --check it only compares, and fails when the file is
 * stale. A state, stop reason, event or code without words fails both.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { errorSection } from './docs/error-section.mjs';
import { eventSection } from './docs/event-section.mjs';
import { routeSection } from './docs/route-section.mjs';
import { stateSection } from './docs/state-section.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);
const file = `${root}docs/api-reference.md`;

const text = [
  '<!-- Generated from apps/gateway and libs/domain by `npm run gen`. Do not edit. -->',
  '# API reference',
  '',
  'Tables made from the code. How to use them: [api.md](api.md). Schemas of every body: `/openapi.json` of a gateway.',
  '',
  ...routeSection(`${root}apps/gateway`, require),
  ...stateSection(require(`${root}libs/domain/dist/index.js`)),
  ...eventSection(`${root}libs/domain/src`),
  ...errorSection(`${root}libs/domain/src/errors/codes.ts`),
].join('\n');

const stored = () => {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
};

if (!process.argv.includes('--check')) {
  writeFileSync(file, text);
} else if (stored() !== text) {
  console.error('docs/api-reference.md is stale: run `npm run gen -w @codedock/gateway` and commit the result.');
  process.exitCode = 1;
}
