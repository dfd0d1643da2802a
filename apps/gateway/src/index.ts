export { type RunningGateway, type ServeOptions, serveGateway } from './serve.js';
