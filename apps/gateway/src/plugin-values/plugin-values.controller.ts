import { Body, Controller, Inject, Param, Query } from '@nestjs/common';
import { By, type Caller } from '../auth/caller.js';
import { Operators } from '../auth/operators.js';
import { Endpoint } from '../http/endpoint.js';
import { requireKnownPlugin } from '../plugins/known-plugin.js';
import { PLUGIN_HOSTS, type PluginHosts, STORE, type Store } from '../tokens.js';
import {
  changedValue,
  type PutSecret,
  type PutSetting,
  putSecret,
  putSetting,
  secretList,
  settingList,
  type WhichValue,
  whichValue,
} from './plugin-value.schema.js';
import { PluginValues, type ValueChange } from './plugin-values.js';

const TAG = 'Plugins';

/** Settings and secrets of plugins, as administrators set them. */
@Controller('v1/plugins/:name')
export class PluginValuesController {
  constructor(
    @Inject(STORE) private readonly store: Store,
    @Inject(PLUGIN_HOSTS) private readonly hosts: PluginHosts,
    private readonly values: PluginValues,
    private readonly operators: Operators,
  ) {}

  @Endpoint('GET', 'settings', {
    summary: "List a plugin's settings: the tenant's own and the global ones",
    tag: TAG,
    scopes: ['admin'],
    answers: { 200: { description: 'By key.', schema: settingList } },
    problems: ['plugin_not_found'],
  })
  async settings(@By() { tenantId }: Caller, @Param('name') name: string) {
    await requireKnownPlugin(this.store, this.hosts, name);
    return { items: await this.values.settings(tenantId, name) };
  }

  @Endpoint('PUT', 'settings/:key', {
    summary: "Set a plugin's setting; audited",
    tag: TAG,
    scopes: ['admin'],
    body: putSetting,
    answers: { 200: { description: 'It is set.', schema: changedValue } },
    problems: ['plugin_not_found', 'too_large'],
  })
  async putSetting(
    @By() caller: Caller,
    @Param('name') name: string,
    @Param('key') key: string,
    @Body() { value, scope }: PutSetting,
  ) {
    await requireKnownPlugin(this.store, this.hosts, name);
    await this.values.setSetting(this.changeOf(caller, name, key, scope), value);
    return { plugin: name, key, scope };
  }

  @Endpoint('DELETE', 'settings/:key', {
    summary: "Remove a plugin's setting; audited",
    tag: TAG,
    scopes: ['admin'],
    query: whichValue,
    answers: { 204: { description: 'It is gone.' } },
    problems: ['plugin_not_found'],
  })
  async removeSetting(
    @By() caller: Caller,
    @Param('name') name: string,
    @Param('key') key: string,
    @Query() { scope }: WhichValue,
  ): Promise<void> {
    await requireKnownPlugin(this.store, this.hosts, name);
    await this.values.removeSetting(this.changeOf(caller, name, key, scope));
  }

  @Endpoint('GET', 'secrets', {
    summary: "List the names of a plugin's secrets; no secret is ever shown",
    tag: TAG,
    scopes: ['admin'],
    answers: { 200: { description: 'By key.', schema: secretList } },
    problems: ['plugin_not_found'],
  })
  async secrets(@By() { tenantId }: Caller, @Param('name') name: string) {
    await requireKnownPlugin(this.store, this.hosts, name);
    return { items: await this.values.secrets(tenantId, name) };
  }

  @Endpoint('PUT', 'secrets/:key', {
    summary: "Set a plugin's secret, kept encrypted; audited without it",
    tag: TAG,
    scopes: ['admin'],
    body: putSecret,
    answers: { 200: { description: 'It is set.', schema: changedValue } },
    problems: ['plugin_not_found', 'too_large', 'config_invalid'],
  })
  async putSecret(
    @By() caller: Caller,
    @Param('name') name: string,
    @Param('key') key: string,
    @Body() { value, scope }: PutSecret,
  ) {
    await requireKnownPlugin(this.store, this.hosts, name);
    await this.values.setSecret(this.changeOf(caller, name, key, scope), value);
    return { plugin: name, key, scope };
  }

  @Endpoint('DELETE', 'secrets/:key', {
    summary: "Remove a plugin's secret; audited",
    tag: TAG,
    scopes: ['admin'],
    query: whichValue,
    answers: { 204: { description: 'It is gone.' } },
    problems: ['plugin_not_found'],
  })
  async removeSecret(
    @By() caller: Caller,
    @Param('name') name: string,
    @Param('key') key: string,
    @Query() { scope }: WhichValue,
  ): Promise<void> {
    await requireKnownPlugin(this.store, this.hosts, name);
    await this.values.removeSecret(this.changeOf(caller, name, key, scope));
  }

  /** @throws AppError `forbidden` for a global value, where the caller's tenant may not change what all share. */
  private changeOf(caller: Caller, plugin: string, key: string, scope: ValueChange['scope']): ValueChange {
    if (scope === 'global') this.operators.require(caller);
    return { tenantId: caller.tenantId, plugin, key, scope, actor: caller.keyName };
  }
}
