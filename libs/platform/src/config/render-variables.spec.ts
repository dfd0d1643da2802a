import { readConfig } from './read-config.js';
import { renderConfigurationDocument, renderEnvironmentExample } from './render-variables.js';
import { listVariables } from './variables.js';

test('the document has one row per variable', () => {
  const text = renderConfigurationDocument();
  for (const [, { name }] of listVariables()) {
    expect(text.match(new RegExp(`^\\| \`${name}\``, 'gm'))).toHaveLength(1);
  }
  expect(text).toContain('| `DATABASE_URL` | URL | **required** | gateway, runner |');
  expect(text).toContain('| value of `DATABASE_URL` |');
});

test('the example, uncommented, is a configuration with the same values as none', () => {
  const environment: Record<string, string> = {};
  for (const [, name = '', value = ''] of renderEnvironmentExample().matchAll(/^#([A-Z_]+)=(.*)$/gm)) {
    environment[name] = value;
  }
  expect(Object.keys(environment)).toHaveLength(listVariables().length);
  expect(readConfig('plugin-host', environment)).toEqual(readConfig('plugin-host', {}));
});
