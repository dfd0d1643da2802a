import { queueBackendOf } from './queue-backend.js';

describe('queueBackendOf', () => {
  it.each([
    ['redis://localhost', 'redis'],
    ['rediss://user:pw@host:6380/1', 'redis'],
    ['redis+sentinel://s1:26379,s2:26379/main', 'redis'],
    ['rediss+cluster://n1:6379,n2:6379', 'redis'],
    ['REDIS://localhost', 'redis'],
    ['postgres://host/db', 'postgres'],
    ['postgresql://host/db', 'postgres'],
  ] as const)('%s is %s', (url, backend) => {
    expect(queueBackendOf(url)).toBe(backend);
  });

  it.each(['', 'amqp://host', 'localhost:6379', 'redis+other://host', 'constructor://host'])(
    'refuses %p without repeating it',
    (url) => {
      expect(() => queueBackendOf(url)).toThrow(expect.objectContaining({ code: 'config_invalid' }));
    },
  );
});
