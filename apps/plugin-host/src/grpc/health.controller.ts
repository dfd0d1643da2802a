import { health } from '@codedock/proto';
import { Controller } from '@nestjs/common';
import { GrpcMethod } from '@nestjs/microservices';
import { PluginHost } from '../plugin-host.js';

const { SERVING, NOT_SERVING } = health.HealthCheckResponse_ServingStatus;

/** Standard health: `""` and `liveness` = the process answers, `readiness` = it takes gate calls. Open to probes without a token. */
@Controller()
export class HealthController {
  constructor(private readonly host: PluginHost) {}

  @GrpcMethod('Health', 'Check')
  check({ service }: health.HealthCheckRequest): health.HealthCheckResponse {
    return { status: service !== 'readiness' || this.host.ready ? SERVING : NOT_SERVING };
  }
}
