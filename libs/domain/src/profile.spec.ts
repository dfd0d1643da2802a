import { type AgentProfile, configFor } from './profile.js';

const profile: AgentProfile = {
  name: 'support',
  systemPrompt: 'base',
  model: { provider: 'fake', name: 'fake' },
  tools: ['ping'],
  deniedTools: [],
  approvalMode: 'manual',
  creatorMayApprove: true,
  limits: { maxTurns: 10, maxToolCalls: 10, wallTimeMs: 1000, maxParallelTools: 2 },
  retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 100 },
  holdDeltas: false,
  modes: { strict: { systemPrompt: 'strict', deniedTools: ['ping'] } },
};

describe('configFor', () => {
  it('is the profile without its modes when no mode is named', () => {
    const { modes: _, ...base } = profile;
    expect(configFor(profile, undefined)).toEqual(base);
    expect(configFor(profile, '')).toEqual(base);
  });

  it('lays the mode over the profile and keeps its label', () => {
    expect(configFor(profile, 'strict')).toMatchObject({
      systemPrompt: 'strict',
      deniedTools: ['ping'],
      tools: ['ping'],
      mode: 'strict',
    });
  });

  it.each(['nowhere', 'toString', '__proto__'])('knows no mode %s', (mode) => {
    expect(configFor(profile, mode)).toBeUndefined();
  });
});
