import { offeredTools } from './offered-tools.js';

const named = (...names: string[]) => names.map((name) => ({ name }));
const own = new Map(named('ping', 'memory_read').map((tool) => [tool.name, tool]));

const offered = (more: { tools?: string[]; deniedTools?: string[]; active?: string[]; plugins?: string[] }) =>
  offeredTools({
    config: { tools: more.tools ?? ['ping'], deniedTools: more.deniedTools ?? [] },
    own: (name) => own.get(name),
    plugins: named(...(more.plugins ?? ['deploy', 'search', 'ping'])),
    active: more.active,
  }).map(({ name }) => name);

it('offers what the profile lists and what plugins have, without the denied', () => {
  expect(offered({})).toEqual(['ping', 'deploy', 'search']);
  expect(offered({ tools: ['memory_read', 'ping', 'ping', 'none'], deniedTools: ['search', 'ping'] })).toEqual([
    'memory_read',
    'deploy',
  ]);
});

it('offers of plugins only what is active, and always what the profile lists', () => {
  expect(offered({ active: ['search', 'gone'] })).toEqual(['ping', 'search']);
  expect(offered({ active: [] })).toEqual(['ping']);
  expect(offered({ active: ['search', 'memory_read'], deniedTools: ['search'] })).toEqual(['ping']);
});
