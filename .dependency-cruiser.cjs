'use strict';
const { existsSync } = require('node:fs');
const { join } = require('node:path');

/**
 * Who may import whom. One row per package; docs/architecture.md explains the reasons.
 * `may` lists workspace packages, `npm` the only npm packages (absent = any that `never` does not name),
 * `never` npm packages that are refused, `core: false` refuses Node's own modules.
 */
const NEST = '@nestjs';
const GRPC = '@grpc';
const PROTOBUF = '@bufbuild/protobuf|protobufjs|ts-proto';
const PRISMA = '@prisma|prisma';
const BULLMQ = 'bullmq';
const TELEMETRY = '@opentelemetry';

const SERVICE = ['domain', 'hooks', 'runs', 'models', 'queue', 'plugin-bridge', 'proto', 'store', 'platform'];

const TABLE = {
  'libs/domain': { may: [], npm: [], core: false },
  'libs/hooks': { may: ['domain'], npm: [], core: false },
  'libs/agent-loop': { may: ['domain', 'hooks'], npm: [], core: false },
  'libs/proto': { may: [], npm: ['@bufbuild/protobuf', '@grpc/grpc-js'] },
  'libs/plugin-bridge': { may: ['domain', 'hooks', 'proto'], never: [PRISMA, 'pg', NEST, BULLMQ] },
  'libs/plugin-sdk': { may: ['proto'], never: [NEST, PRISMA, 'pg', BULLMQ] },
  'libs/models': { may: ['domain', 'hooks'], never: [PRISMA, 'pg', NEST, BULLMQ] },
  'libs/store': { may: ['domain'], never: [NEST, BULLMQ, GRPC] },
  'libs/runs': { may: ['domain', 'hooks', 'store'], never: [NEST, GRPC, PROTOBUF, BULLMQ] },
  'libs/queue': { may: ['domain'], never: [NEST, PRISMA, GRPC] },
  'libs/platform': { may: ['domain'], never: [PRISMA, 'pg', BULLMQ] },
  'libs/embedded': { may: [], npm: ['pg'] },
  'libs/trace-receiver': { may: [], npm: [] },
  'apps/gateway': { may: SERVICE },
  'apps/runner': { may: [...SERVICE, 'agent-loop'] },
  'apps/plugin-host': {
    may: ['domain', 'hooks', 'plugin-bridge', 'proto', 'platform'],
    never: [PRISMA, 'pg', BULLMQ, 'ioredis', 'openai'],
  },
  'apps/cli': {
    may: ['domain', 'plugin-sdk', 'store', 'queue', 'platform', 'embedded', 'trace-receiver'],
    never: [NEST, BULLMQ],
  },
  'plugin/[^/]+': { may: ['plugin-sdk'] },
  'examples/[^/]+': { may: ['plugin-sdk'] },
};

const SPEC = '\\.spec\\.ts$';
const named = (folder) => (folder.endsWith('[^/]+') ? folder.split('/')[0] : folder.split('/')[1]);
const packages = (names) => `(^|/)node_modules/(${names.join('|')})(/|$)`;

const rulesOf = ([folder, row]) => {
  const name = named(folder);
  const from = { path: `^${folder}/`, pathNot: SPEC };
  const own = `^${folder}/`;
  const rules = [
    {
      name: `${name}-workspace-imports`,
      comment: `${folder} may import ${row.may.length ? row.may.join(', ') : 'no other package of the workspace'}.`,
      severity: 'error',
      from,
      to: {
        path: '^(apps|libs|plugin|examples|tests|scripts)/',
        pathNot: [own, ...(row.may.length ? [`^libs/(${row.may.join('|')})/`] : [])],
      },
    },
  ];
  if (row.npm) {
    rules.push({
      name: `${name}-npm-imports`,
      comment: `${folder} may import ${row.npm.length ? row.npm.join(', ') : 'no npm package'}.`,
      severity: 'error',
      from,
      to: { path: '(^|/)node_modules/', ...(row.npm.length ? { pathNot: packages(row.npm) } : {}) },
    });
  }
  if (row.never) {
    rules.push({
      name: `${name}-never`,
      comment: `${folder} never imports ${row.never.join(', ')}.`,
      severity: 'error',
      from,
      to: { path: packages(row.never) },
    });
  }
  if (row.core === false) {
    rules.push({
      name: `${name}-no-node`,
      comment: `${folder} is pure: it uses none of Node's own modules.`,
      severity: 'error',
      from,
      to: { dependencyTypes: ['core'] },
    });
  }
  return rules;
};

const paths = join(__dirname, 'tsconfig.paths.json');

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...Object.entries(TABLE).flatMap(rulesOf),
    {
      name: 'apps-never-import-apps',
      comment: 'Apps talk over HTTP, gRPC, the queue and the database.',
      severity: 'error',
      from: { path: '^apps/([^/]+)/' },
      to: { path: '^apps/', pathNot: '^apps/$1/' },
    },
    {
      name: 'services-in-cli-only-where-the-api-cannot',
      comment:
        'The first key cannot come through the API, no key may lift the limits of its tenant, and what is ill may not answer; everything else does.',
      severity: 'error',
      from: { path: '^apps/cli/', pathNot: [SPEC, '^apps/cli/src/(keys|tenants|doctor|with-store)(/|\\.ts$)'] },
      to: { path: '^libs/(store|queue|platform)/' },
    },
    {
      name: 'testkit-only-in-tests',
      comment: 'The test kit may import anything, so nothing that ships may import it.',
      severity: 'error',
      from: { pathNot: [SPEC, '^tests/', '^libs/testkit/', '^scripts/'] },
      to: { path: '^libs/testkit/' },
    },
    {
      name: 'plugin-host-reaches-no-database',
      comment: 'The plugin-host holds no database client, not even through another package.',
      severity: 'error',
      from: { path: '^apps/plugin-host/src/', pathNot: SPEC },
      to: { path: `^libs/(store|queue|runs)/|${packages([PRISMA, 'pg', BULLMQ])}`, reachable: true },
    },
    {
      name: 'plugin-api-reaches-no-core',
      comment: 'What a plugin author installs pulls in nothing of the services.',
      severity: 'error',
      from: { path: '^libs/plugin-sdk/src/', pathNot: SPEC },
      to: { path: '^libs/(domain|hooks|agent-loop|store|runs|queue|platform)/', reachable: true },
    },
    {
      name: 'core-reaches-no-framework',
      comment: 'The pure core stays free of frameworks and transports, however many steps away.',
      severity: 'error',
      from: { path: '^libs/(domain|hooks|agent-loop)/src/', pathNot: SPEC },
      to: { path: packages([NEST, GRPC, PROTOBUF, PRISMA, BULLMQ, TELEMETRY]), reachable: true },
    },
    {
      name: 'no-deep-imports',
      comment: 'A package is imported by its entry (or the test kit of the plugin SDK), never by a path inside it.',
      severity: 'error',
      from: { path: '^(apps|libs|plugin|examples)/([^/]+)/', pathNot: SPEC },
      to: {
        path: '^(apps|libs|plugin|examples)/[^/]+/',
        pathNot: ['^$1/$2/', '^libs/[^/]+/src/index\\.ts$', '^libs/plugin-sdk/src/testing/index\\.ts$'],
      },
    },
    {
      name: 'no-circular',
      comment: 'A cycle hides which side decides.',
      severity: 'error',
      from: { pathNot: '^libs/(proto/src/gen|store/src/generated)/' },
      to: { circular: true },
    },
    {
      name: 'no-unresolvable',
      comment: 'An import that does not resolve escapes every other rule.',
      severity: 'error',
      from: { pathNot: SPEC },
      to: { couldNotResolve: true, pathNot: 'src/generated/' },
    },
  ],
  options: {
    doNotFollow: { path: ['node_modules', 'libs/store/src/generated'] },
    exclude: { path: ['(^|/)dist/', '(^|/)\\.codedock/', '^apps/console/', '^apps/cli/templates/'] },
    tsPreCompilationDeps: true,
    combinedDependencies: true,
    ...(existsSync(paths) ? { tsConfig: { fileName: paths } } : {}),
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['require', 'node', 'default', 'types'],
      mainFields: ['main', 'types'],
    },
  },
};
