import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readProfiles } from './read-profiles.js';

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'profiles-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('readProfiles', () => {
  it('has a default profile with the fake model, or the provider’s once there is a key', async () => {
    expect(await readProfiles({})).toMatchObject([
      { name: 'default', model: { provider: 'fake' }, approvalMode: 'manual' },
    ]);
    expect(await readProfiles({ openaiModel: 'm' })).toMatchObject([
      { name: 'default', model: { provider: 'openai', name: 'm' } },
    ]);
  });

  it('reads YAML and JSON alike, fills in defaults and keeps the built-in profile', async () => {
    const yaml = file(
      'a.yaml',
      'agents:\n  - name: writer\n    model: { provider: openai, name: m }\n    modes:\n      terse: { systemPrompt: Be terse. }\n',
    );
    const json = file(
      'a.json',
      JSON.stringify({
        agents: [
          { name: 'writer', model: { provider: 'openai', name: 'm' }, modes: { terse: { systemPrompt: 'Be terse.' } } },
        ],
      }),
    );
    const read = await readProfiles({ file: yaml });
    expect(read).toEqual(await readProfiles({ file: json }));
    expect(read.map((profile) => profile.name)).toEqual(['default', 'writer']);
    expect(read[1]).toMatchObject({
      limits: { maxTurns: 50 },
      retry: { maxAttempts: 3 },
      creatorMayApprove: true,
      modes: { terse: {} },
    });
  });

  it('lets a file replace the default profile', async () => {
    const path = file('b.yaml', 'agents: [{ name: default, model: { provider: fake, name: f } }]');
    expect(await readProfiles({ file: path })).toMatchObject([{ name: 'default', model: { name: 'f' } }]);
  });

  it.each([
    ['that is missing', 'missing.yaml', undefined, /cannot be read/],
    ['that is no YAML', 'bad.yaml', 'agents: [', /neither YAML nor JSON/],
    [
      'with an unknown field',
      'c.yaml',
      'agents: [{ name: a, model: { provider: fake, name: f }, tool: [x] }]',
      /agents\/0.*tool/,
    ],
    [
      'with a wrong type',
      'd.yaml',
      'agents: [{ name: a, model: { provider: fake, name: f }, limits: { maxTurns: 0 } }]',
      /limits\/maxTurns/,
    ],
    [
      'with two agents of one name',
      'e.yaml',
      'agents: [{ name: a, model: { provider: fake, name: f } }, { name: a, model: { provider: fake, name: f } }]',
      /same name/,
    ],
  ])('refuses a file %s, naming the variable and the place', async (_, name, text, message) => {
    const path = text === undefined ? join(folder, name) : file(name, text);
    await expect(readProfiles({ file: path })).rejects.toMatchObject({
      code: 'config_invalid',
      message: expect.stringMatching(message),
    });
    await expect(readProfiles({ file: path })).rejects.toThrow('CODEDOCK_PROFILES_FILE');
  });
});
