import { redactLine } from '@codedock/platform';
import type { gate, plugin } from '@codedock/proto';
import { Observable, type Subscriber } from 'rxjs';
import { matchSubjectOf } from '../dispatch/match-subject.js';
import type { AskResult } from '../session/plugin-session.js';
import { envelopeJson } from './envelope-json.js';
import type { Recorded } from './recorded.js';

interface Watcher {
  readonly tenant: string;
  readonly subscriber: Subscriber<gate.RecordedQuestion>;
}

/**
 * Shows administrators what a plugin is asked, while they look: nothing is kept. A line goes only to who asked for that
 * plugin and that tenant, without the capability, and with secrets replaced as in logs.
 */
export class Recorder {
  private readonly watchers = new Map<string, Set<Watcher>>();
  private closed = false;

  /** Questions of a plugin in the name of a tenant, from now on; completes when the host drains. */
  watch(name: string, tenant: string): Observable<gate.RecordedQuestion> {
    return new Observable((subscriber) => {
      if (this.closed) {
        subscriber.complete();
        return undefined;
      }
      const watcher = { tenant, subscriber };
      const watching = this.watchers.get(name) ?? new Set();
      this.watchers.set(name, watching.add(watcher));
      return () => {
        watching.delete(watcher);
        if (watching.size === 0) this.watchers.delete(name);
      };
    });
  }

  /** A question was put to a plugin. */
  asked(name: string, question: plugin.Envelope, asking: Promise<AskResult>): void {
    if (!this.watchers.has(name)) return;
    const begun = performance.now();
    const at = new Date().toISOString();
    void asking.then((result) => {
      const duration_ms = Number((performance.now() - begun).toFixed(3));
      this.show(name, question, { question: envelopeJson(question), ...outcomeOf(result), at, duration_ms });
    });
  }

  /** A plugin is told of an event. */
  told(name: string, event: plugin.Envelope): void {
    if (!this.watchers.has(name)) return;
    this.show(name, event, { question: envelopeJson(event), at: new Date().toISOString() });
  }

  /** Ends every recording. */
  close(): void {
    this.closed = true;
    for (const watching of [...this.watchers.values()])
      for (const { subscriber } of [...watching]) subscriber.complete();
  }

  private show(name: string, { principal }: plugin.Envelope, recorded: Recorded): void {
    const { tenant } = matchSubjectOf(principal, '');
    const interested = [...(this.watchers.get(name) ?? [])].filter((watcher) => watcher.tenant === tenant);
    if (interested.length === 0) return;
    const json = redactLine(JSON.stringify(recorded));
    for (const { subscriber } of interested) subscriber.next({ json });
  }
}

function outcomeOf(result: AskResult): Pick<Recorded, 'answer' | 'failed'> {
  if (result.kind === 'answered') return { answer: envelopeJson(result.reply) };
  if (result.kind === 'cancelled')
    return { failed: { outcome: 'cancelled', reason: 'the caller did not wait any longer' } };
  return { failed: { outcome: result.outcome, reason: result.reason } };
}
