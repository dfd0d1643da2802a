import { Body, Controller, Inject, Param } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Endpoint } from '../http/endpoint.js';
import { defined } from '../http/shapes.js';
import { PLUGIN_HOSTS, type PluginHosts, STORE, type Store } from '../tokens.js';
import { requireKnownPlugin, requirePluginName } from './known-plugin.js';
import {
  type ChangePlugin,
  changedPlugin,
  changePlugin,
  pluginChain,
  pluginList,
  steeredPlugin,
} from './plugin.schema.js';
import { chainOf, pluginsOf, unreachable } from './plugin-overview.js';
import { STEERING, type Steering, steeredReplica, steeringFailure } from './steering.js';

const TAG = 'Plugins';

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
    const [{ epoch, disabled }, replicas, deliveries] = await Promise.all([
      this.store.plugins.desired(),
      this.hosts.plugins.list(),
      this.store.pluginDeliveries.states(),
    ]);
    return { items: pluginsOf(replicas, disabled, deliveries), epoch, unreachable: unreachable(replicas) };
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
    installation: true,
    body: changePlugin,
    answers: { 200: { description: 'It is out.', schema: changedPlugin } },
    problems: ['plugin_not_found'],
  })
  async disable(@By() caller: Caller, @Param('name') name: string, @Body() body: ChangePlugin) {
    await requireKnownPlugin(this.store, this.hosts, name);
    const desired = await this.store.plugins.disable(changeOf(caller, name, body));
    return { plugin: name, disabled: true, epoch: desired.epoch, refreshed: await this.refresh() };
  }

  @Endpoint('POST', ':name/enable', {
    summary: 'Let a disabled plugin in again; audited',
    tag: TAG,
    scopes: ['admin'],
    installation: true,
    body: changePlugin,
    answers: { 200: { description: 'It is in.', schema: changedPlugin } },
    problems: ['plugin_not_found'],
  })
  async enable(@By() caller: Caller, @Param('name') name: string, @Body() body: ChangePlugin) {
    await requireKnownPlugin(this.store, this.hosts, name);
    const desired = await this.store.plugins.enable(changeOf(caller, name, body));
    return { plugin: name, disabled: false, epoch: desired.epoch, refreshed: await this.refresh() };
  }

  @Endpoint('POST', ':name/stop', {
    summary: 'Take a plugin out on all replicas until it is started again or its host restarts; audited',
    tag: TAG,
    scopes: ['admin'],
    installation: true,
    body: changePlugin,
    answers: { 200: { description: 'It is stopped.', schema: steeredPlugin } },
    problems: STEERING,
  })
  stop(@By() caller: Caller, @Param('name') name: string, @Body() body: ChangePlugin) {
    return this.steer('stop', caller, name, body);
  }

  @Endpoint('POST', ':name/start', {
    summary: 'Start a stopped or failed plugin on all replicas; audited',
    tag: TAG,
    scopes: ['admin'],
    installation: true,
    body: changePlugin,
    answers: { 200: { description: 'It was started; its state says how that went.', schema: steeredPlugin } },
    problems: STEERING,
  })
  start(@By() caller: Caller, @Param('name') name: string, @Body() body: ChangePlugin) {
    return this.steer('start', caller, name, body);
  }

  @Endpoint('POST', ':name/reload', {
    summary:
      'Read a plugin anew on all replicas and replace its process without failing a call, or take in one whose folder is new; audited',
    tag: TAG,
    scopes: ['admin'],
    installation: true,
    body: changePlugin,
    answers: {
      200: { description: 'The new one answers; where it did not come up the old one stays.', schema: steeredPlugin },
    },
    problems: STEERING,
  })
  reload(@By() caller: Caller, @Param('name') name: string, @Body() body: ChangePlugin) {
    return this.steer('reload', caller, name, body);
  }

  /** The chain is another one afterwards, so its epoch is raised: a host that has not followed is not asked. */
  private async steer(verb: Steering, caller: Caller, name: string, { reason }: ChangePlugin) {
    // Reload finds plugins that nobody knows yet.
    if (verb === 'reload') requirePluginName(name);
    else await requireKnownPlugin(this.store, this.hosts, name);
    const replicas = (await this.hosts.plugins[verb](name)).map(steeredReplica);
    const done = replicas.some((one) => one.done);
    await this.store.audit.admin({
      tenantId: caller.tenantId,
      actor: caller.keyName,
      action: `plugin.${verb}`,
      target: name,
      detail: { ...defined({ reason }), replicas: replicas.map(({ code: _, ...shown }) => shown) },
    });
    if (!done) throw steeringFailure(name, replicas);
    const { epoch } = await this.store.plugins.raiseEpoch(caller.keyName);
    await this.refresh();
    return { plugin: name, epoch, replicas: replicas.map(({ code: _, ...shown }) => shown) };
  }

  /** How many hosts took the change over at once. */
  private async refresh(): Promise<number> {
    return (await this.hosts.plugins.refresh()).filter((answer) => answer.ok).length;
  }
}

function changeOf({ tenantId, keyName }: Caller, plugin: string, { reason }: ChangePlugin) {
  return { plugin, actor: keyName, tenantId, ...defined({ reason }) };
}
