import { spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { cp, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  expectNoLeftovers,
  repositoryRoot,
  type TemporaryFolder,
  temporaryFolder,
  writePlugin,
} from '@codedock/testkit';
import { fakeScript, START_MS, type System, startSystem } from '../system.js';
import { go, python } from './peers.js';
import { follow, shell } from './tutorials/follow.js';

const NAME = 'long-commands';
/** Following a tutorial installs packages and compiles. */
const FOLLOW_MS = 300_000;

const whyAbsent: Readonly<Record<string, string | undefined>> = {
  typescript: undefined,
  go: typeof go === 'string' ? go : undefined,
  python: typeof python === 'string' ? python : undefined,
  shell: spawnSync('jq', ['--version']).status === 0 ? undefined : 'the shell tutorial: there is no jq on PATH',
};
const followed = Object.keys(whyAbsent).filter((language) => whyAbsent[language] === undefined);

const shellTool = `
import { defineTool, serve } from '@codedock/plugin-sdk';
serve({
  name: 'machine',
  version: '1.0.0',
  tools: [
    defineTool({
      name: 'shell',
      description: 'Runs a command.',
      parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] },
      execute: () => 'ran',
    }),
  ],
});
`;

/** Puts a tutorial's plugin into a root: under its language's name, and asked about the agent of that name alone. */
async function install(folder: string, root: string, language: string): Promise<void> {
  const target = path.join(root, language);
  await cp(folder, target, {
    recursive: true,
    filter: (source) => !['node_modules', 'vendor', 'src', 'build'].includes(path.basename(source)),
  });
  await rename(path.join(target, NAME), path.join(target, language)).catch((error: NodeJS.ErrnoException) => {
    // Not every plugin has an executable of its own.
    if (error.code !== 'ENOENT') throw error;
  });
  const file = path.join(target, 'plugin.json');
  const settings = JSON.parse(await readFile(file, 'utf8').catch(() => '{}')) as object;
  await writeFile(file, JSON.stringify({ ...settings, match: { agents: [language] }, timeoutMs: 20_000 }));
}

describe('the tutorials', () => {
  let work: TemporaryFolder;
  let system: System;
  const folders = new Map<string, string>();
  const printed = new Map<string, string>();

  beforeAll(async () => {
    work = await temporaryFolder('cdt-');
    for (const language of followed) {
      const result = await follow(language, path.join(work.path, language));
      folders.set(language, result.folder);
      printed.set(language, result.printed);
    }
    system = await startSystem({
      plugins: async (root) => {
        await writePlugin(root, '10-machine', { source: shellTool });
        for (const [language, folder] of folders) await install(folder, root, language);
      },
      agents: followed.map((name) => ({ name, model: { provider: 'fake', name: 'scripted' } })),
      env: { PLUGIN_GATE_TIMEOUT: '20s' },
    });
  }, FOLLOW_MS * 2);

  afterAll(async () => {
    await system?.stop();
    await work?.remove();
    await expectNoLeftovers();
  }, START_MS);

  const startRun = async (agent: string, characters: number) =>
    system.startRun(await system.createSession(), {
      agent,
      content: fakeScript(
        { toolCalls: [{ name: 'shell', arguments: { command: 'x'.repeat(characters) } }] },
        { text: 'done' },
      ),
    });

  for (const [language, absent] of Object.entries(whyAbsent)) {
    if (absent !== undefined) {
      describe(language, () => it.skip(`is not followed: ${absent}`, () => undefined));
      continue;
    }
    describe(language, () => {
      it('ends with a plugin whose tests pass and that the plugin-host takes', () => {
        expect(printed.get(language)).toMatch(
          /plugin-host {2}ready: long-commands .* subscribes to tools\/pre-execute/,
        );
        if (language !== 'shell') expect(printed.get(language)).toContain('own tests    passed');
      });

      it('asks for approval of a command of 81 characters', async () => {
        const run = await startRun(language, 81);
        await system.waitForRun(run.id, ({ status }) => status === 'waiting_approval');
        const { body } = await system.api<{ items: { calls: { reasons: { by: string; reason?: string }[] }[] }[] }>(
          'GET',
          `/v1/approvals?status=open&runId=${run.id}`,
        );
        expect(JSON.stringify(body.items[0]?.calls[0]?.reasons)).toContain('the command has 81 characters');
        await system.api('POST', `/v1/runs/${run.id}/cancel`, {});
      });

      it('lets one of 80 characters pass', async () => {
        const run = await startRun(language, 80);
        expect(await system.waitForEnd(run.id)).toMatchObject({ status: 'completed' });
        const result = (await system.events(run.sessionId)).find(({ type }) => type === 'tool.execution_result');
        expect(result?.payload).toMatchObject({ tool: 'shell', result: { output: 'ran' } });
      });
    });
  }

  it('make a TypeScript plugin that has its SDK packed in it, far from the clone', async () => {
    const folder = folders.get('typescript') ?? '';
    const sdk = realpathSync(path.join(folder, 'node_modules/@codedock/plugin-sdk'));
    expect(sdk.startsWith(realpathSync(folder))).toBe(true);
    expect(realpathSync(folder).startsWith(repositoryRoot())).toBe(false);

    const byHand = spawnSync(path.join(folder, NAME), { encoding: 'utf8' });
    expect(byHand).toMatchObject({ status: 1, stdout: '' });
    expect(byHand.stderr).toContain('It is started by the plugin-host, not by hand.');
  });

  it(
    'make one whose errors name the line of its source, in the log of the host',
    async () => {
      const folder = path.join(work.path, 'thrower', NAME);
      await cp(folders.get('typescript') ?? '', folder, { recursive: true });
      const source = path.join(folder, 'src/plugin.ts');
      const text = await readFile(source, 'utf8');
      const throwing = text.replace(
        "if (input.call.name !== 'shell')",
        "if (input) throw new Error('no idea');\n    $&",
      );
      expect(throwing).not.toBe(text);
      await writeFile(source, throwing);
      const line = throwing.split('\n').findIndex((one) => one.includes('no idea')) + 1;
      const question = { type: 'tools/pre-execute', payload: { call: { id: '1', name: 'shell', arguments: {} } } };
      await writeFile(path.join(folder, 'asked.jsonl'), JSON.stringify({ question }));
      const told = await shell('npm run build; codedock plugin test . --replay asked.jsonl 2>&1 || true', folder);
      expect(told).toContain('now it fails: error: no idea');
      expect(told).toContain(`src/plugin.ts:${line}:`);
    },
    FOLLOW_MS,
  );
});

it('the Go template carries the code that is generated from the protocol', async () => {
  if (whyAbsent['go'] !== undefined) return;
  const generated = path.join(repositoryRoot(), 'tests/interop/go/gen/codedock/plugin/v1');
  const template = path.join(repositoryRoot(), 'apps/cli/templates/go/pluginv1');
  for (const file of ['plugin.pb.go', 'plugin_grpc.pb.go'])
    expect(await readFile(path.join(template, file), 'utf8')).toBe(await readFile(path.join(generated, file), 'utf8'));
});
