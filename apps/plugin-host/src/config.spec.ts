import { readPluginHostConfig } from './config.js';

const token = '0123456789abcdef0123456789abcdef';
const minimal = { CODEDOCK_HOST_API_URL: '127.0.0.1:7071', CODEDOCK_INTERNAL_TOKEN: token };

describe('configuration', () => {
  it('has defaults for all but the gateway and the token', () => {
    expect(readPluginHostConfig(minimal)).toEqual({
      pluginRoots: [],
      rpcTimeoutMs: 2_000,
      gateTimeoutMs: 2_000,
      startTimeoutMs: 10_000,
      listen: '127.0.0.1:7070',
      healthListen: { host: '127.0.0.1', port: 8082 },
      hostApiTarget: '127.0.0.1:7071',
      internalToken: token,
      logLevel: 'info',
      logFormat: 'json',
      exitWithParent: false,
    });
  });

  it('takes either name of the plugin folder, and several folders', () => {
    expect(readPluginHostConfig({ ...minimal, PLUGIN_DIR: `/:${__dirname}` }).pluginRoots).toEqual(['/', __dirname]);
    expect(readPluginHostConfig({ ...minimal, PLUGIN_DIR: '/', CODEDOCK_PLUGIN_DIR: '/' }).pluginRoots).toEqual(['/']);
  });

  it.each([
    ['PLUGIN_RPC_TIMEOUT', { PLUGIN_RPC_TIMEOUT: 'soon' }],
    ['PLUGIN_RPC_TIMEOUT', { PLUGIN_RPC_TIMEOUT: '3s' }],
    ['PLUGIN_GATE_TIMEOUT', { PLUGIN_GATE_TIMEOUT: '10ms' }],
    ['PLUGIN_START_TIMEOUT', { PLUGIN_START_TIMEOUT: '1h' }],
    ['PLUGIN_HOST_LISTEN', { PLUGIN_HOST_LISTEN: '0.0.0.0:7070' }],
    ['CODEDOCK_HOST_API_URL', { CODEDOCK_HOST_API_URL: 'gateway:7071' }],
    ['CODEDOCK_HOST_API_URL', { CODEDOCK_HOST_API_URL: '127.0.0.1:7071,127.0.0.1:7072' }],
    ['CODEDOCK_INTERNAL_TOKEN', { CODEDOCK_INTERNAL_TOKEN: undefined }],
    ['CODEDOCK_INTERNAL_TOKEN', { CODEDOCK_INTERNAL_TOKEN: 'short' }],
    ['CODEDOCK_TLS_KEY_FILE', { CODEDOCK_TLS_CERT_FILE: __filename }],
    [
      'CODEDOCK_TLS_CA_FILE',
      { CODEDOCK_TLS_CERT_FILE: __filename, CODEDOCK_TLS_KEY_FILE: __filename, CODEDOCK_TLS_CA_FILE: '/nowhere' },
    ],
    ['CODEDOCK_PLUGIN_DIR', { CODEDOCK_PLUGIN_DIR: '/a', PLUGIN_DIR: '/b' }],
    ['CODEDOCK_PLUGIN_DIR', { PLUGIN_DIR: '/no/such/folder' }],
    ['CODEDOCK_PLUGIN_DIR', { CODEDOCK_PLUGIN_DIR: __filename }],
    ['CODEDOCK_PLUGINDIR', { CODEDOCK_PLUGINDIR: '/a' }],
    ['CODEDOCK_LOG_LEVEL', { CODEDOCK_LOG_LEVEL: 'loud' }],
  ])('refuses a wrong %s by name', (name, variables) => {
    expect(() => readPluginHostConfig({ ...minimal, ...variables })).toThrow(name);
  });
});
