import fc from 'fast-check';
import { type JsonObject, jsonEqual } from './json.js';
import { patchedScratchpad, scratchpadPatch } from './scratchpad.js';

const bag = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), fc.oneof(fc.integer(), fc.constant(null), fc.string()));

describe('scratchpad', () => {
  it('a patch turns what was sent into what was answered', () => {
    fc.assert(
      fc.property(bag, bag, (sent: JsonObject, answered: JsonObject) => {
        const patch = scratchpadPatch(sent, answered);
        const result = patch === undefined ? sent : patchedScratchpad(sent, patch);
        expect(jsonEqual(result, answered)).toBe(true);
        expect(patch === undefined).toBe(jsonEqual(sent, answered));
      }),
    );
  });

  it('keeps what other calls wrote under other keys, and the later write under the same key', () => {
    const sent = { shared: 1, mine: 1, gone: 1 };
    const patch = scratchpadPatch(sent, { shared: 1, mine: 2 });
    expect(patch).toEqual({ set: { mine: 2 }, deleted: ['gone'] });
    if (patch === undefined) throw new Error('unreachable');
    expect(patchedScratchpad({ shared: 9, mine: 9, gone: 9, theirs: 1 }, patch)).toEqual({
      shared: 9,
      mine: 2,
      theirs: 1,
    });
  });

  it('keeps the key __proto__ a key', () => {
    const answered = JSON.parse('{"__proto__": 1}') as JsonObject;
    const patch = scratchpadPatch({}, answered);
    if (patch === undefined) throw new Error('the key was lost');
    expect(Object.keys(patchedScratchpad({}, patch))).toEqual(['__proto__']);
  });
});
