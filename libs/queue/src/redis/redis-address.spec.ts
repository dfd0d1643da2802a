import { redisAddressOf } from './redis-address.js';

describe('redisAddressOf', () => {
  it.each(['redis://localhost', 'rediss://user:pw@host:6380/1'])('leaves one server to ioredis: %s', (url) => {
    expect(redisAddressOf(url)).toEqual({ kind: 'single', url });
  });

  it.each([
    [
      'redis+sentinel://s1/main',
      { kind: 'sentinel', tls: false, sentinels: [{ host: 's1', port: 26_379 }], master: 'main', database: 0 },
    ],
    [
      'rediss+sentinel://user:p%40,ss@s1:1,s2,[::1]:3/my%20main/4?sentinel_username=watch&sentinel_password=a+b%2B%25',
      {
        kind: 'sentinel',
        tls: true,
        username: 'user',
        password: 'p@,ss',
        sentinels: [
          { host: 's1', port: 1 },
          { host: 's2', port: 26_379 },
          { host: '::1', port: 3 },
        ],
        master: 'my main',
        database: 4,
        sentinelUsername: 'watch',
        sentinelPassword: 'a+b+%',
      },
    ],
    [
      'REDISS+Cluster://:secret@n1:7000,n2/',
      {
        kind: 'cluster',
        tls: true,
        password: 'secret',
        nodes: [
          { host: 'n1', port: 7_000 },
          { host: 'n2', port: 6_379 },
        ],
      },
    ],
    ['redis+cluster://n1', { kind: 'cluster', tls: false, nodes: [{ host: 'n1', port: 6_379 }] }],
  ])('reads %s', (url, address) => {
    expect(redisAddressOf(url)).toEqual(address);
  });

  it.each([
    ['redis+sentinel://secret@s1', 'does not name the master'],
    ['redis+sentinel://secret@s1/', 'does not name the master'],
    ['redis+sentinel://secret@s1/main/one', 'has no number for its database'],
    ['redis+sentinel://secret@s1/main/1/2', 'has no number for its database'],
    ['redis+sentinel://secret@s1,,s2/main', 'a host that cannot be read'],
    ['redis+sentinel://secret@s1:0x1/main', 'a host that cannot be read'],
    ['redis+sentinel://secret@s1:99999/main', 'a host that cannot be read'],
    ['redis+sentinel:///main', 'a host that cannot be read'],
    ['redis+sentinel://secret%@s1/main', 'a percent sign'],
    ['redis+sentinel://secret@s1/main%zz', 'a percent sign'],
    ['redis+sentinel://secret@s1/main?password=secret', 'unknown parameter'],
    ['redis+cluster://app:7?secret@n1', 'unknown parameter'],
    ['redis+cluster://secret@n1/1', 'a Cluster has but one'],
    ['redis+cluster://secret@n1?node=n2', 'unknown parameter'],
    ['redis+cluster://secret@n1#n2', 'cannot be read'],
    ['redis://a b', 'cannot be read'],
  ])('refuses %s, saying what is wrong and how it is written', (url, what) => {
    const refusal = () => redisAddressOf(url);
    expect(refusal).toThrow(
      expect.objectContaining({ code: 'config_invalid', message: expect.stringContaining(what) }),
    );
    expect(refusal).toThrow(/Write redis/);
    expect(refusal).not.toThrow(/secret/);
  });
});
