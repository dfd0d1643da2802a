import { addressKind } from './egress.js';

describe('addressKind', () => {
  it.each([
    ['93.184.216.34', 'public'],
    ['2606:2800:220:1::1', 'public'],
    ['127.0.0.1', 'loopback'],
    ['::1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['10.1.2.3', 'private'],
    ['172.31.255.255', 'private'],
    ['172.32.0.1', 'public'],
    ['192.168.0.1', 'private'],
    ['169.254.169.254', 'private'],
    ['100.64.0.1', 'private'],
    ['0.0.0.0', 'private'],
    ['fd00::1', 'private'],
    ['fe80::1', 'private'],
    ['::ffff:a00:1', 'private'],
    ['::ffff:10.0.0.1', 'private'],
  ] as const)('%s is %s', (address, kind) => {
    expect(addressKind(address)).toBe(kind);
  });
});
