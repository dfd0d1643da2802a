import type { ServiceDefinition } from '@grpc/grpc-js';

/**
 * The shape a proto loader would return for the given generated services, so that a server which expects a loaded
 * package uses the generated codec. Keys are full service names, methods carry their proto names (`Dispatch`).
 */
export function packageDefinitionOf(...services: ServiceDefinition[]): Record<string, ServiceDefinition> {
  const definition: Record<string, ServiceDefinition> = {};
  for (const service of services) {
    const methods: Record<string, ServiceDefinition[string]> = {};
    let serviceName = '';
    for (const [originalName, method] of Object.entries(service)) {
      const [, fullName = '', methodName = ''] = method.path.split('/');
      serviceName = fullName;
      methods[methodName] = { ...method, originalName };
    }
    definition[serviceName] = methods;
  }
  return definition;
}
