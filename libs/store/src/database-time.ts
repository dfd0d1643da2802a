import type { Prisma } from './generated/client.js';

/** The database's time, for what Prisma would stamp with this machine's. Inside a transaction too. */
export async function databaseTime(prisma: Pick<Prisma.TransactionClient, '$queryRaw'>): Promise<Date> {
  const [row] = await prisma.$queryRaw<{ now: Date }[]>`SELECT codedock_now() AS now`;
  if (row === undefined) throw new TypeError('the database told no time');
  return row.now;
}
