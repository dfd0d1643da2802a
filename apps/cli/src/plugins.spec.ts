import { type FakeGateway, fakeGateway } from './testing/fake-gateway.js';

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

let gateway: FakeGateway;
const key = process.env['CODEDOCK_API_KEY'];

beforeAll(async () => {
  process.env['CODEDOCK_API_KEY'] = 'cdk_test';
  gateway = await fakeGateway({ 'GET /v1/plugins/explain': EXPLANATION });
});
afterAll(async () => {
  if (key === undefined) delete process.env['CODEDOCK_API_KEY'];
  else process.env['CODEDOCK_API_KEY'] = key;
  await gateway.close();
});

it('plugins explain prints the chain of every port in order, its policy and budget, and then the warnings', async () => {
  const lines = (await gateway.codedock('plugins', 'explain')).trimEnd().split('\n');
  expect(gateway.asked).toEqual([{ method: 'GET', url: '/v1/plugins/explain' }]);
  expect(lines.map((line) => line.split(/ {2,}/))).toEqual([
    ['port', 'chain', 'failure policy', 'budget ms'],
    ['agent/input', '10-redact@1.2.0 → 20-policy (not ready) → 30-trial@0.1.0 (shadow)', 'closed', '2000'],
    ['agent/request', '–', 'open', '1500'],
    ['warning: agent/input: plugin-hosts differ in 10-redact'],
    ['warning: agent/input: 20-policy sees text before 30-trial'],
  ]);
});

it('plugins explain --json prints the answer as it is', async () => {
  expect(JSON.parse(await gateway.codedock('--json', 'plugins', 'explain'))).toEqual(EXPLANATION);
});
