import { AppError } from '@codedock/domain';
import { Body, Controller, Inject, Param } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined } from '../http/shapes.js';
import { PLUGIN_HOSTS, type PluginHosts, STORE, type Store } from '../tokens.js';
import { type ChangePlugin, changedPlugin, changePlugin, pluginChain, pluginList } from './plugin.schema.js';
import { chainOf, pluginsOf, unreachable } from './plugin-overview.js';

const TAG = 'Plugins';
const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** Plugins as administrators see and steer them; works while every plugin is down. */
@Controller('v1/plugins')
export class PluginsController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts,
  ) {}

  @Endpoint('GET', '', {
    summary: 'List plugins over all replicas, in chain order',
    tag: TAG,
    scopes: ['admin', 'runs'],
    answers: { 200: { description: 'All plugins.', schema: pluginList } },
  })
  async list() {
    const [{ epoch, disabled }, replicas] = await Promise.all([
      this.store.plugins.desired(),
      this.hosts.plugins.list(),
    ]);
    return { items: pluginsOf(replicas, disabled), epoch, unreachable: unreachable(replicas) };
  }

  @Endpoint('GET', 'explain', {
    summary: 'Explain the effective chain of every port, with policies and budgets',
    tag: TAG,
    scopes: ['admin', 'runs'],
    answers: { 200: { description: 'The chain.', schema: pluginChain } },
  })
  async explain() {
    return chainOf(this.hosts, await this.store.plugins.desired());
  }

  @Endpoint('POST', ':name/disable', {
    summary: 'Take a plugin out on all replicas, across restarts; audited',
    tag: TAG,
    scopes: ['admin'],
    body: changePlugin,
    answers: { 200: { description: 'It is out.', schema: changedPlugin } },
    problems: ['plugin_not_found'],
  })
  async disable(@By() caller: Caller, @Param('name') name: string, @Body() body: ChangePlugin) {
    await this.requireKnown(name);
    const desired = await this.store.plugins.disable(changeOf(caller, name, body));
    return { plugin: name, disabled: true, epoch: desired.epoch, refreshed: await this.refresh() };
  }

  @Endpoint('POST', ':name/enable', {
    summary: 'Let a disabled plugin in again; audited',
    tag: TAG,
    scopes: ['admin'],
    body: changePlugin,
    answers: { 200: { description: 'It is in.', schema: changedPlugin } },
    problems: ['plugin_not_found'],
  })
  async enable(@By() caller: Caller, @Param('name') name: string, @Body() body: ChangePlugin) {
    await this.requireKnown(name);
    const desired = await this.store.plugins.enable(changeOf(caller, name, body));
    return { plugin: name, disabled: false, epoch: desired.epoch, refreshed: await this.refresh() };
  }

  /** How many hosts took the change over at once. */
  private async refresh(): Promise<number> {
    return (await this.hosts.plugins.refresh()).filter((answer) => answer.ok).length;
  }

  /** A misspelt name must not look like a success; while no host answers, the name cannot be checked and is taken. */
  private async requireKnown(name: string): Promise<void> {
    const missing = new AppError('plugin_not_found', 'There is no plugin with this name.');
    if (!NAME.test(name)) throw missing;
    const [{ disabled }, replicas] = await Promise.all([this.store.plugins.desired(), this.hosts.plugins.list()]);
    const answered = replicas.flatMap((one) => (one.ok ? [one.value] : []));
    const known = disabled.includes(name) || answered.some((plugins) => plugins.some((plugin) => plugin.name === name));
    if (answered.length > 0 && !known) throw missing;
  }
}

function changeOf({ tenantId, keyName }: Caller, plugin: string, { reason }: ChangePlugin) {
  return { plugin, actor: keyName, tenantId, ...defined({ reason }) };
}
