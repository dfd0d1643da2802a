import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const root = resolve(__dirname, '../..');

interface Violation {
  readonly rule: string;
  readonly from: string;
  readonly to: string;
}

/** Writes the files into an empty folder and answers every rule they break, cruised with the repository's own rules. */
const cruise = (files: Readonly<Record<string, string>>): Violation[] => {
  const folder = mkdtempSync(join(tmpdir(), 'codedock-boundaries-'));
  try {
    const planted: Record<string, string> = {
      ...files,
      'package.json': '{"name":"planted","private":true}',
      'rules.cjs': `const rules = require(${JSON.stringify(join(root, '.dependency-cruiser.cjs'))});
module.exports = { ...rules, options: { ...rules.options, tsConfig: { fileName: ${JSON.stringify(join(folder, 'tsconfig.json'))} } } };`,
      'tsconfig.json': JSON.stringify({
        compilerOptions: {
          module: 'nodenext',
          moduleResolution: 'nodenext',
          paths: { '@codedock/*': ['./libs/*/src/index.ts'] },
        },
      }),
    };
    for (const [name, text] of Object.entries(planted)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    const command = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs');
    const roots = ['apps', 'libs', 'plugin', 'tests'].filter((name) =>
      Object.keys(files).some((file) => file.startsWith(`${name}/`)),
    );
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [command, '--config', 'rules.cjs', '--output-type', 'json', ...roots],
      { cwd: folder, encoding: 'utf8' },
    );
    if (!stdout.startsWith('{')) throw new Error(`dependency-cruiser printed no report: ${stderr}`);
    const report = JSON.parse(stdout) as {
      summary: { violations: { from: string; to: string; rule: { name: string } }[] };
    };
    return report.summary.violations.map(({ rule, from, to }) => ({ rule: rule.name, from, to }));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

const npm = (name: string): Record<string, string> => ({
  [`node_modules/${name}/package.json`]: JSON.stringify({ name, version: '1.0.0', main: 'index.js' }),
  [`node_modules/${name}/index.js`]: 'module.exports = {};',
});
const lib = (name: string): Record<string, string> => ({ [`libs/${name}/src/index.ts`]: 'export const here = 1;' });
const LIBS = ['domain', 'hooks', 'agent-loop', 'proto', 'plugin-sdk', 'store', 'runs', 'queue', 'testkit', 'platform'];
const ground: Record<string, string> = {
  ...Object.assign({}, ...LIBS.map(lib)),
  ...Object.assign({}, ...['@nestjs/common', '@grpc/grpc-js', 'bullmq', 'pg', 'ajv', '@bufbuild/protobuf'].map(npm)),
};
const importing = (target: string): string => `import * as it from '${target}';\nexport const seen = it;\n`;

/** [file, what it imports, the rule that must refuse it] */
const REFUSED: readonly (readonly [string, string, string])[] = [
  ['libs/domain/src/a.ts', '@codedock/hooks', 'domain-workspace-imports'],
  ['libs/domain/src/b.ts', 'ajv', 'domain-npm-imports'],
  ['libs/domain/src/c.ts', 'node:crypto', 'domain-no-node'],
  ['libs/hooks/src/a.ts', '@codedock/store', 'hooks-workspace-imports'],
  ['libs/hooks/src/b.ts', '@grpc/grpc-js', 'hooks-npm-imports'],
  ['libs/hooks/src/c.ts', 'fs', 'hooks-no-node'],
  ['libs/agent-loop/src/a.ts', '@codedock/runs', 'agent-loop-workspace-imports'],
  ['libs/agent-loop/src/b.ts', '@nestjs/common', 'agent-loop-npm-imports'],
  ['libs/agent-loop/src/c.ts', 'node:timers', 'agent-loop-no-node'],
  ['libs/proto/src/a.ts', '@codedock/domain', 'proto-workspace-imports'],
  ['libs/proto/src/b.ts', 'ajv', 'proto-npm-imports'],
  ['libs/plugin-bridge/src/a.ts', '@codedock/store', 'plugin-bridge-workspace-imports'],
  ['libs/plugin-bridge/src/b.ts', '@nestjs/common', 'plugin-bridge-never'],
  ['libs/plugin-sdk/src/a.ts', '@codedock/domain', 'plugin-sdk-workspace-imports'],
  ['libs/plugin-sdk/src/b.ts', '@nestjs/common', 'plugin-sdk-never'],
  ['libs/models/src/a.ts', '@codedock/store', 'models-workspace-imports'],
  ['libs/models/src/b.ts', 'bullmq', 'models-never'],
  ['libs/store/src/a.ts', '@codedock/hooks', 'store-workspace-imports'],
  ['libs/store/src/b.ts', 'bullmq', 'store-never'],
  ['libs/runs/src/a.ts', '@codedock/agent-loop', 'runs-workspace-imports'],
  ['libs/runs/src/b.ts', '@grpc/grpc-js', 'runs-never'],
  ['libs/queue/src/a.ts', '@codedock/store', 'queue-workspace-imports'],
  ['libs/queue/src/b.ts', '@nestjs/common', 'queue-never'],
  ['libs/platform/src/a.ts', '@codedock/hooks', 'platform-workspace-imports'],
  ['libs/platform/src/b.ts', 'pg', 'platform-never'],
  ['libs/embedded/src/a.ts', '@codedock/store', 'embedded-workspace-imports'],
  ['libs/embedded/src/b.ts', 'bullmq', 'embedded-npm-imports'],
  ['libs/trace-receiver/src/a.ts', '@codedock/domain', 'trace-receiver-workspace-imports'],
  ['libs/trace-receiver/src/b.ts', 'pg', 'trace-receiver-npm-imports'],
  ['apps/gateway/src/a.ts', '@codedock/agent-loop', 'gateway-workspace-imports'],
  ['apps/gateway/src/b.ts', '@codedock/plugin-sdk', 'gateway-workspace-imports'],
  ['apps/gateway/src/c.ts', '../../runner/src/main.js', 'apps-never-import-apps'],
  ['apps/gateway/src/d.ts', '@codedock/testkit', 'testkit-only-in-tests'],
  ['apps/gateway/src/e.ts', '../../../libs/domain/src/inner.js', 'no-deep-imports'],
  ['apps/runner/src/a.ts', '@codedock/plugin-sdk', 'runner-workspace-imports'],
  ['apps/plugin-host/src/a.ts', '@codedock/store', 'plugin-host-workspace-imports'],
  ['apps/plugin-host/src/b.ts', 'pg', 'plugin-host-never'],
  ['apps/cli/src/a.ts', '@codedock/runs', 'cli-workspace-imports'],
  ['apps/cli/src/b.ts', 'bullmq', 'cli-never'],
  ['apps/cli/src/runs.ts', '@codedock/store', 'services-in-cli-only-where-the-api-cannot'],
  ['plugin/example/src/a.ts', '@codedock/domain', 'plugin-workspace-imports'],
  ['libs/queue/src/gone.ts', './not-there.js', 'no-unresolvable'],
];

/** [file, what it imports]: allowed, so that a rule which refuses everything fails here. */
const ALLOWED: readonly (readonly [string, string])[] = [
  ['libs/hooks/src/ok.ts', '@codedock/domain'],
  ['libs/agent-loop/src/ok.ts', '@codedock/hooks'],
  ['libs/agent-loop/src/ok.spec.ts', 'node:fs'],
  ['libs/proto/src/ok.ts', '@bufbuild/protobuf'],
  ['libs/runs/src/ok.ts', '@codedock/store'],
  ['libs/runs/src/ok.int.spec.ts', '@codedock/testkit'],
  ['libs/store/src/ok.ts', 'pg'],
  ['apps/runner/src/ok.ts', '@codedock/agent-loop'],
  ['apps/gateway/src/ok.ts', '@nestjs/common'],
  ['apps/cli/src/keys/create-key.ts', '@codedock/store'],
  ['tests/faults/ok.ts', '@codedock/testkit'],
];

describe('import boundaries', () => {
  const planted = cruise({
    ...ground,
    'apps/runner/src/main.ts': 'export const here = 1;',
    'libs/domain/src/inner.ts': 'export const here = 1;',
    ...Object.fromEntries([...REFUSED, ...ALLOWED].map(([file, target]) => [file, importing(target)])),
  });

  it.each(REFUSED)('%s may not import %s', (file, _target, rule) => {
    expect(planted.filter(({ from }) => from === file).map((violation) => violation.rule)).toContain(rule);
  });

  it.each(ALLOWED)('%s may import %s', (file) => {
    expect(planted.filter(({ from }) => from === file)).toEqual([]);
  });

  it('refuses a cycle', () => {
    const rules = cruise({
      'libs/store/src/one.ts': importing('./two.js'),
      'libs/store/src/two.ts': importing('./one.js'),
    }).map(({ rule }) => rule);
    expect(rules).toContain('no-circular');
  });

  it('sees a database client that the plugin-host reaches through another package', () => {
    const found = cruise({
      ...npm('pg'),
      'apps/plugin-host/src/main.ts': importing('@codedock/platform'),
      'libs/platform/src/index.ts': importing('./pool.js'),
      'libs/platform/src/pool.ts': importing('pg'),
    });
    expect(found).toContainEqual(
      expect.objectContaining({ rule: 'plugin-host-reaches-no-database', from: 'apps/plugin-host/src/main.ts' }),
    );
  });

  it('sees a framework and a core package that are reached through another package', () => {
    const found = cruise({
      ...npm('@nestjs/common'),
      'libs/agent-loop/src/main.ts': importing('@codedock/hooks'),
      'libs/hooks/src/index.ts': importing('@nestjs/common'),
      'libs/plugin-sdk/src/serve.ts': importing('@codedock/proto'),
      'libs/proto/src/index.ts': importing('@codedock/domain'),
      'libs/domain/src/index.ts': 'export const here = 1;',
    });
    expect(found).toContainEqual(
      expect.objectContaining({ rule: 'core-reaches-no-framework', from: 'libs/agent-loop/src/main.ts' }),
    );
    expect(found).toContainEqual(
      expect.objectContaining({ rule: 'plugin-api-reaches-no-core', from: 'libs/plugin-sdk/src/serve.ts' }),
    );
  });
});
