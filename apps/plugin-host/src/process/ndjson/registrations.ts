import { AppError, type JsonValue } from '@codedock/domain';
import { isPort, type Port, plugin } from '@codedock/proto';

const maxSubscriptions = 256;
const maxSettings = 256;
const maxNameCharacters = 128;

/** A setting a plugin knows, as it told the host. */
export interface SettingDefinition {
  readonly key: string;
  readonly description: string;
  readonly default?: JsonValue;
}

/** What one plugin process has registered: what other plugins say in their manifest. */
export class Registrations {
  private readonly stages = new Map<Port, string>();
  private readonly events = new Set<string>();
  private readonly definitions = new Map<string, SettingDefinition>();
  private about: Partial<plugin.Manifest> = {};
  private started = false;

  /** `onEventsChanged` is called when subscriptions to events change after the start. */
  constructor(private readonly onEventsChanged: (manifest: plugin.Manifest) => void) {}

  /** What the handshake's answer said. */
  introduce(about: Partial<plugin.Manifest>): void {
    this.about = about;
  }

  /** From now on only subscriptions to events change. */
  seal(): plugin.Manifest {
    this.started = true;
    return this.manifest;
  }

  get capabilities(): readonly string[] {
    return this.about.capabilities ?? [];
  }

  get settings(): readonly SettingDefinition[] {
    return [...this.definitions.values()];
  }

  /** @throws AppError after the start, or for a policy that is none. */
  addStage(stage: Port, failurePolicy: string): void {
    if (this.started) {
      throw new AppError(
        'invalid_request',
        `stage.register: ${stage} was registered after plugin.start was answered; register stages while it is handled`,
      );
    }
    if (!['', 'open', 'closed'].includes(failurePolicy))
      throw new AppError('invalid_request', 'stage.register: "failure_policy" must be "open" or "closed"');
    this.stages.set(stage, failurePolicy);
  }

  /** @throws AppError for a name that is no event's, or too many of them. */
  subscribe(names: readonly string[]): void {
    for (const name of names) {
      if (name === '' || name.length > maxNameCharacters || isPort(name) || name.includes('/')) {
        throw new AppError(
          'invalid_request',
          `events.subscribe: ${JSON.stringify(name.slice(0, 100))} is no name of an event; ports are registered with stage.register`,
        );
      }
      if (this.events.size >= maxSubscriptions && !this.events.has(name))
        throw new AppError('invalid_request', `events.subscribe: at most ${maxSubscriptions} events`);
      this.events.add(name);
    }
    this.changed();
  }

  unsubscribe(names: readonly string[]): void {
    for (const name of names) this.events.delete(name);
    this.changed();
  }

  /** @throws AppError for a key that is none, or too many of them. */
  addSetting(definition: SettingDefinition): void {
    const { key } = definition;
    if (key === '' || key.length > maxNameCharacters)
      throw new AppError(
        'invalid_request',
        `settings.registerDef: "key" must have 1 to ${maxNameCharacters} characters`,
      );
    if (this.definitions.size >= maxSettings && !this.definitions.has(key))
      throw new AppError('invalid_request', `settings.registerDef: at most ${maxSettings} settings`);
    this.definitions.set(key, definition);
  }

  settingDefault(key: string): JsonValue | undefined {
    return this.definitions.get(key)?.default;
  }

  private changed(): void {
    if (this.started) this.onEventsChanged(this.manifest);
  }

  private get manifest(): plugin.Manifest {
    const tightened = [...this.stages].filter(([, policy]) => policy !== '');
    return plugin.Manifest.fromPartial({
      ...this.about,
      protocolMajor: 1,
      subscriptions: [...this.stages.keys(), ...this.events],
      portFailurePolicy: { ...this.about.portFailurePolicy, ...Object.fromEntries(tightened) },
    });
  }
}
