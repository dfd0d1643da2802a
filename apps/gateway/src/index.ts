export { type GatewayParts, type RunningGateway, type ServeOptions, serveGateway } from './serve.js';
