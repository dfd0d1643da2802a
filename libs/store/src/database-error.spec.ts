import { databaseError, isConflict } from './database-error.js';

const sql = (code: string) => Object.assign(new Error('refused'), { code });
/** As Prisma gives it, around its driver's. */
const prisma = (originalCode: string) =>
  Object.assign(new Error('refused'), { code: 'P2010', meta: { driverAdapterError: { cause: { originalCode } } } });

test.each([
  ['a serialization failure', '40001'],
  ['a deadlock', '40P01'],
  ['a lock that was not had in time', '55P03'],
  ['a statement that was cancelled', '57014'],
  ['a full disk', '53100'],
  ['too many connections', '53300'],
  ['a server that became read-only', '25006'],
  ['a server that shuts down', '57P01'],
  ['a broken connection', '08006'],
])('%s is no bug: the client may come back', (_, code) => {
  for (const failure of [sql(code), prisma(code)]) {
    expect(databaseError(failure)).toMatchObject({ code: 'store_unavailable', status: 503, retryAfterMs: 1_000 });
  }
});

test.each(['DatabaseNotReachable', 'ConnectionClosed', 'SocketTimeout'])(
  'Prisma says %s of a connection, alone or around a raw statement: the client may come back',
  (kind) => {
    const cause = { kind };
    const alone = Object.assign(new Error(kind), { name: 'DriverAdapterError', cause });
    const around = Object.assign(new Error('refused'), { code: 'P2010', meta: { driverAdapterError: { cause } } });
    for (const failure of [alone, around]) {
      expect(databaseError(failure)).toMatchObject({ code: 'store_unavailable', retryAfterMs: 1_000 });
    }
  },
);

test('what only a bug can cause stays one', () => {
  for (const code of ['23503', '42601', '22012']) {
    expect(databaseError(sql(code))).toMatchObject({ code: 'invariant_broken' });
  }
});

test('only what was rolled back because of others is tried again at once', () => {
  expect(['40001', '40P01'].map((code) => isConflict(sql(code)))).toEqual([true, true]);
  expect(['55P03', '57014', '53300', '08006'].map((code) => isConflict(sql(code)))).toEqual([
    false,
    false,
    false,
    false,
  ]);
});
