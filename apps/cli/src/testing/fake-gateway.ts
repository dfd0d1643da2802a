import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { program } from '../program.js';

/** A request as the fake gateway got it. */
export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly ifMatch?: string;
  readonly body?: unknown;
}

/** The command in front of a gateway that answers what it is given. */
export interface FakeGateway {
  /** Requests so far; emptied by whoever counts anew. */
  readonly asked: Asked[];
  /** Runs the command, with the API key that is in the environment, and answers what it prints. */
  codedock(...args: string[]): Promise<string>;
  close(): Promise<void>;
}

/** Answers by `METHOD path`, the query left out; what is not there is 204. */
export async function fakeGateway(answers: Readonly<Record<string, object>>): Promise<FakeGateway> {
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { method = '', url: target = '' } = request;
    asked.push({
      method,
      url: target,
      ...(request.headers['if-match'] === undefined ? {} : { ifMatch: request.headers['if-match'] }),
      ...(text === '' ? {} : { body: JSON.parse(text) }),
    });
    const answer = answers[`${method} ${target.split('?')[0]}`];
    response.setHeader('connection', 'close');
    response.statusCode = answer === undefined ? 204 : 200;
    response.end(answer === undefined ? undefined : JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    asked,
    async codedock(...args) {
      const written = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
      try {
        await program().parseAsync(['node', 'codedock', '--url', url, ...args]);
        return written.mock.calls.join('');
      } finally {
        written.mockRestore();
      }
    },
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
