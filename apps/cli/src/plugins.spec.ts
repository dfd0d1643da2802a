import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { program } from './program.js';

const EXPLANATION = {
  epoch: 4,
  ready: true,
  disabled: ['retired'],
  ports: [
    {
      port: 'agent/input',
      failurePolicy: 'closed',
      budgetMs: 2_000,
      subscribers: [
        { plugin: '10-redact', version: '1.2.0', failurePolicy: 'closed', required: true, ready: true, shadow: false },
        { plugin: '20-policy', failurePolicy: 'closed', required: false, ready: false, shadow: false },
        { plugin: '30-trial', version: '0.1.0', failurePolicy: 'open', required: false, ready: true, shadow: true },
      ],
    },
    { port: 'agent/request', failurePolicy: 'open', budgetMs: 1_500, subscribers: [] },
  ],
  warnings: ['agent/input: plugin-hosts differ in 10-redact', 'agent/input: 20-policy sees text before 30-trial'],
};

let server: Server;
let url: string;
let asked: string[];
const key = process.env['CODEDOCK_API_KEY'];

beforeAll(async () => {
  process.env['CODEDOCK_API_KEY'] = 'cdk_test';
  server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.setHeader('connection', 'close');
    response.end(JSON.stringify(EXPLANATION));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
beforeEach(() => {
  asked = [];
});
afterAll(async () => {
  if (key === undefined) delete process.env['CODEDOCK_API_KEY'];
  else process.env['CODEDOCK_API_KEY'] = key;
  await new Promise((resolve) => server.close(resolve));
});

async function codedock(...args: string[]): Promise<string> {
  const written = jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  try {
    await program().parseAsync(['node', 'codedock', '--url', url, ...args]);
    return written.mock.calls.join('');
  } finally {
    written.mockRestore();
  }
}

it('plugins explain prints the chain of every port in order, its policy and budget, and then the warnings', async () => {
  const lines = (await codedock('plugins', 'explain')).trimEnd().split('\n');
  expect(asked).toEqual(['GET /v1/plugins/explain']);
  expect(lines.map((line) => line.split(/ {2,}/))).toEqual([
    ['port', 'chain', 'failure policy', 'budget ms'],
    ['agent/input', '10-redact@1.2.0 → 20-policy (not ready) → 30-trial@0.1.0 (shadow)', 'closed', '2000'],
    ['agent/request', '–', 'open', '1500'],
    ['warning: agent/input: plugin-hosts differ in 10-redact'],
    ['warning: agent/input: 20-policy sees text before 30-trial'],
  ]);
});

it('plugins explain --json prints the answer as it is', async () => {
  expect(JSON.parse(await codedock('--json', 'plugins', 'explain'))).toEqual(EXPLANATION);
});
