import { Controller, Inject } from '@nestjs/common';
import { z } from 'zod';
import { Endpoint } from '../http/endpoint.js';
import { STORE, type Store } from '../tokens.js';
import { Drain } from './drain.js';

const TAG = 'Service';
const ok = z.object({ status: z.literal('ok') });

/** Probes. Readiness asks the database alone: an administrator can act while every plugin is down. */
@Controller()
export class HealthController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    private readonly drain: Drain,
  ) {}

  @Endpoint('GET', 'healthz', {
    summary: 'Is the process alive',
    tag: TAG,
    scopes: [],
    answers: { 200: { description: 'It is.', schema: ok } },
  })
  live() {
    return { status: 'ok' };
  }

  @Endpoint('GET', 'readyz', {
    summary: 'Does it take requests',
    tag: TAG,
    scopes: [],
    answers: { 200: { description: 'It does.', schema: ok } },
  })
  async ready() {
    this.drain.check();
    await this.store.ready();
    return { status: 'ok' };
  }
}
