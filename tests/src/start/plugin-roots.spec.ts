import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const repository = join(__dirname, '..', '..', '..');
let base: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'roots-')));
  for (const folder of ['data', 'home', 'project']) mkdirSync(join(base, folder));
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

/** The roots as `npm start` hands them to the plugin-host. */
function roots(variables: Record<string, string> = {}): string[] {
  const program = `
    const { pluginRoots } = await import(${JSON.stringify(join(repository, 'scripts/start/plugin-root.mjs'))});
    process.stdout.write(await pluginRoots(${JSON.stringify(join(base, 'data'))}, { demonstration: false }));`;
  const answer = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    cwd: join(base, 'project'),
    env: { PATH: '', HOME: join(base, 'home'), ...variables },
  });
  return answer.split(':').map((path) => path.replace(`${base}/`, ''));
}

it('adds the folders of home and project where they exist, after what is shipped, and one for plugins being written', () => {
  expect(roots()).toEqual(['data/plugin-root', 'data/plugins']);
  mkdirSync(join(base, 'home/.codedock/plugins'), { recursive: true });
  mkdirSync(join(base, 'project/.codedock/plugins'), { recursive: true });
  expect(roots()).toEqual(['data/plugin-root', 'home/.codedock/plugins', 'project/.codedock/plugins', 'data/plugins']);
});

it('takes the roots the user names, several too, in place of what is shipped', () => {
  expect(roots({ CODEDOCK_PLUGIN_DIR: 'one:two' })).toEqual(['project/one', 'project/two', 'data/plugins']);
  expect(roots({ PLUGIN_DIR: join(base, 'home') })).toEqual(['home', 'data/plugins']);
});

it('looks for the project where npm was called', () => {
  mkdirSync(join(base, 'home/.codedock/plugins'), { recursive: true });
  expect(roots({ INIT_CWD: join(base, 'home') })).toEqual([
    'data/plugin-root',
    'home/.codedock/plugins',
    'data/plugins',
  ]);
});
