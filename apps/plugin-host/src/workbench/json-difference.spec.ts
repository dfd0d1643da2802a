import { jsonDifferences } from './json-difference.js';

describe('differences of two JSON values', () => {
  it('are none between equal values, whatever the order of members', () => {
    expect(jsonDifferences({ a: 1, b: [null, { c: 'x' }] }, { b: [null, { c: 'x' }], a: 1 })).toEqual([]);
  });

  it('name every place', () => {
    const recorded = { call: { name: 'shell', arguments: { command: 'ls', 'a/b~c': 1 } }, list: [1, 2] };
    const now = { call: { name: 'shell', arguments: { command: 'ls -l', 'a/b~c': 2 } }, list: [1], more: true };
    expect(jsonDifferences(recorded, now)).toEqual([
      '/call/arguments/command: recorded "ls", now "ls -l"',
      '/call/arguments/a~1b~0c: recorded 1, now 2',
      '/list/1: recorded 2, now nothing',
      '/more: recorded nothing, now true',
    ]);
  });

  it('name a place where the kinds differ as a whole, and cut what is long', () => {
    expect(jsonDifferences({ a: [1] }, { a: { 0: 1 } })).toEqual(['/a: recorded [1], now {"0":1}']);
    expect(jsonDifferences('x'.repeat(500), null)).toEqual([
      `: recorded "${'x'.repeat(119)}… (502 characters), now null`,
    ]);
  });
});
