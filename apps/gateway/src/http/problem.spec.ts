import { AppError, ERROR_CODES, type ErrorCode } from '@codedock/domain';
import { HttpException } from '@nestjs/common';
import { failureOf, problemFor } from './problem.js';

const requestId = '00000000-0000-4000-8000-000000000000';

describe('problems', () => {
  it.each(Object.entries(ERROR_CODES))('%s is answered with its status', (code, status) => {
    const { problem } = problemFor(new AppError(code as ErrorCode, 'Why.'), requestId);
    expect(problem).toEqual({
      type: `urn:codedock:problem:${code}`,
      title: expect.stringMatching(/^[A-Z]/),
      status,
      detail: 'Why.',
      code,
      instance: `urn:uuid:${requestId}`,
    });
  });

  it.each([
    [400, 'malformed_json'],
    [404, 'not_found'],
    [405, 'method_not_allowed'],
    [413, 'too_large'],
    [414, 'invalid_request'],
    [415, 'unsupported_media_type'],
    [500, 'invariant_broken'],
  ])("the framework's %i becomes %s", (status, code) => {
    expect(failureOf(new HttpException('secret words', status)).code).toBe(code);
    expect(failureOf(Object.assign(new Error('secret words'), { statusCode: status })).code).toBe(code);
    expect(failureOf(new HttpException('secret words', status)).message).not.toContain('secret');
  });

  it('shows nothing of an unexpected error', () => {
    const { problem } = problemFor(failureOf(new Error('password=hunter2')), requestId);
    expect(JSON.stringify(problem)).not.toContain('hunter2');
    expect(problem.status).toBe(500);
  });

  it('carries faults, further members and headers', () => {
    const errors = [{ path: '/a', message: 'is wrong' }];
    const failure = new AppError('session_busy', 'Busy.', {
      retryAfterMs: 1200,
      errors,
      extra: { allow: 'GET', runId: 'r' },
    });
    const { problem, headers } = problemFor(failure, requestId);
    expect(problem).toMatchObject({ errors, runId: 'r' });
    expect(problem).not.toHaveProperty('allow');
    expect(headers).toEqual({ 'retry-after': '2', allow: 'GET' });
    expect(problemFor(new AppError('unauthenticated', 'No.'), requestId).headers).toHaveProperty('www-authenticate');
  });

  it('says when to come back whenever something cannot be served now', () => {
    for (const code of ['gate_timeout', 'gate_unavailable', 'plugin_unavailable', 'queue_unavailable'] as const) {
      expect(problemFor(new AppError(code, 'Not now.'), requestId).headers).toEqual({ 'retry-after': '1' });
    }
    expect(problemFor(new AppError('not_found', 'No.'), requestId).headers).toEqual({});
  });
});
