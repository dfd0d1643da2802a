import { readFileSync } from 'node:fs';
import path from 'node:path';
import { chart, template } from './helm.js';

type Schema = { [key: string]: unknown };

/** Where the chart passes on what Kubernetes defines. */
const OPEN = new Set(['#/$defs/kubernetesObject']);

describe('values.schema.json', () => {
  const schema = JSON.parse(readFileSync(path.join(chart, 'values.schema.json'), 'utf8')) as Schema;

  it('closes every object but those of Kubernetes', () => {
    const open: string[] = [];
    const visit = (node: unknown, at: string) => {
      if (typeof node !== 'object' || node === null) return;
      const { type, properties, additionalProperties } = node as Schema;
      const isObject = type === 'object' || properties !== undefined;
      const closed = additionalProperties === false || typeof additionalProperties === 'object';
      if (isObject && !closed && !OPEN.has(at)) open.push(at);
      for (const [key, child] of Object.entries(node)) visit(child, `${at}/${key}`);
    };
    visit(schema, '#');
    expect(open).toEqual([]);
  });

  it.each([
    ['a misspelt name', 'gateway.replicaz=3', /\/gateway.*replicaz/],
    ['a misspelt section', 'gatewya.scaling.replicas=3', /gatewya/],
    ['a misspelt name deep inside', 'runner.scaling.keda.serverAdress=x', /serverAdress/],
    ['a number as a text', 'image.tag=1', /image\/tag.*string/],
    ['the tag latest', 'image.tag=latest', /image\/tag/],
    ['a mode that does not exist', 'runner.scaling.mode=auto', /scaling\/mode/],
    ['KEDA where it cannot be', 'gateway.scaling.mode=keda', /gateway\/scaling\/mode/],
    ['no runs at all', 'runner.concurrency=0', /runner\/concurrency/],
    ['a wrong duration', 'gates.rpcTimeout=2 seconds', /rpcTimeout/],
    ['TLS switched off', 'tls.mode=off', /tls\/mode/],
    ['a probe of another kind', 'gateway.probes.liveness.tcpSocket.port=1', /tcpSocket/],
    ['an unknown resource setting', 'runner.resources.limit.cpu=1', /resources/],
    ['a port out of range', 'gateway.service.port=70000', /service\/port/],
    ['an unknown scope', 'firstKey.scopes={root}', /firstKey\/scopes/],
  ])('refuses %s', async (_, setting, expected) => {
    const { code, stderr } = await template('standard', { args: ['--set', setting] });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(expected) });
  });

  it.each([
    ['no database', 'database.existingSecret=', /database\.existingSecret/],
    ['an Ingress without a host', 'ingress.enabled=true', /ingress\.hosts/],
    ['a route without a gateway', 'httpRoute.enabled=true', /httpRoute\.parentRefs/],
    [
      'a budget of all replicas',
      'runner.pdb.minAvailable=2',
      /pdb\.minAvailable \(2\) is not below the fewest replicas \(2\)/,
    ],
    ['fewest above most', 'runner.scaling.mode=hpa,runner.scaling.minReplicas=30', /minReplicas \(30\) is above/],
    ['a missing certificate', 'tls.mode=existingSecrets', /tls\.existingSecrets\.[a-zA-Z]+ is not set/],
  ])('and the templates refuse %s, with the remedy', async (_, setting, expected) => {
    const { code, stderr } = await template('standard', { args: ['--set', setting] });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(expected) });
  });

  it('lets another chart depend on this one', async () => {
    const { code, stderr } = await template('standard', { args: ['--set', 'global.imageRegistry=x'] });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});
