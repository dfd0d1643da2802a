import { childEnvironment } from './child-env.js';

const protocol = { socketDirectory: '/tmp/x', pluginName: 'a', config: '{}' };

describe('the environment of a plugin', () => {
  it('passes on the allow-list and what plugin.json names, and nothing else', () => {
    const host = {
      PATH: '/bin',
      HOME: '/root',
      LANG: 'C',
      TMPDIR: '/elsewhere',
      AWS_REGION: 'eu',
      CODEDOCK_INTERNAL_TOKEN: 'secret',
      NODE_OPTIONS: '--inspect',
      PLUGIN_CLIENT_CERT: 'inherited',
      PLUGIN_MULTIPLEX_GRPC: 'true',
      PLUGIN_UNIX_SOCKET_GROUP: 'staff',
      PLUGIN_UNIX_SOCKET_DIR: '/old',
    };
    expect(childEnvironment(host, ['AWS_REGION', 'ABSENT'], protocol)).toEqual({
      PATH: '/bin',
      HOME: '/root',
      LANG: 'C',
      TMPDIR: '/tmp/x',
      AWS_REGION: 'eu',
      CODEDOCK_PLUGIN: 'codedock-plugin-v1',
      CODEDOCK_PLUGIN_NAME: 'a',
      CODEDOCK_PLUGIN_CONFIG: '{}',
      PLUGIN_MIN_PORT: '10000',
      PLUGIN_MAX_PORT: '25000',
      PLUGIN_PROTOCOL_VERSIONS: '1',
      PLUGIN_UNIX_SOCKET_DIR: '/tmp/x',
    });
  });

  it('lets nothing override the protocol', () => {
    const environment = childEnvironment({ PLUGIN_PROTOCOL_VERSIONS: '9' }, ['PLUGIN_PROTOCOL_VERSIONS'], {
      ...protocol,
      clientCertificate: 'pem',
    });
    expect(environment).toMatchObject({ PLUGIN_PROTOCOL_VERSIONS: '1', PLUGIN_CLIENT_CERT: 'pem' });
  });
});
