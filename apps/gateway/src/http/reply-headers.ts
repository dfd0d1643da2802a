import type { FastifyReply } from 'fastify';

/** Headers that hooks have set on a reply, CORS among them; whoever takes the reply over must send them. */
export function headersOf(reply: FastifyReply): Record<string, string | string[] | number> {
  return Object.fromEntries(
    Object.entries(reply.getHeaders()).filter(
      (entry): entry is [string, string | string[] | number] => entry[1] !== undefined,
    ),
  );
}
