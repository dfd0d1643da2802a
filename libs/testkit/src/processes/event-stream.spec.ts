import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openEventStream } from './event-stream.js';
import { eventually } from './eventually.js';

let answer: (response: ServerResponse, lastEventId: string | undefined) => void;
const server = createServer((request, response) => {
  answer(response, request.headers['last-event-id'] as string | undefined);
});
let url: string;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
});

test('keeps frames, comments and the place where it starts', async () => {
  answer = (response, lastEventId) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`:heartbeat\n\nid: ${Number(lastEventId) + 1}\nevent: a\nda`);
    response.end('ta: one\ndata: two\n\ndata: last\n\n');
  };
  const stream = await openEventStream(url, { lastEventId: '41' });
  expect(await stream.waitFor(({ data }) => data === 'last')).toMatchObject({ id: undefined, event: 'message' });
  expect(stream.frames[0]).toMatchObject({ id: '42', event: 'a', data: 'one\ntwo' });
  expect(stream.comments).toEqual(['heartbeat']);
  expect(await stream.over).toBe('ended');
});

test('tells a broken stream from one it closed itself', async () => {
  answer = (response) => {
    response.writeHead(200);
    response.write('data: x\n\n');
  };
  const mine = await openEventStream(url);
  await mine.waitFor(() => true);
  mine.close();
  expect(await mine.over).toBe('closed');

  answer = (response) => {
    response.writeHead(200);
    response.write('data: x\n\n', () => response.socket?.resetAndDestroy());
  };
  const theirs = await openEventStream(url);
  expect(await theirs.over).toBe('broken');
});

test('says what came instead of the awaited frame', async () => {
  answer = (response) => {
    response.writeHead(404);
    response.end('{"code":"not_found"}');
  };
  const stream = await openEventStream(url);
  await eventually(() => expect(stream.text()).toContain('not_found'));
  await expect(stream.waitFor(() => true, 30)).rejects.toThrow(/status 404, frames: .*not_found/);
});
