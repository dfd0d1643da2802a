import { Controller } from '@nestjs/common';
import { z } from 'zod';
import { Endpoint } from '../http/endpoint.js';
import { RouteTable } from '../http/route-table.js';
import { openApiDocument } from './document.js';

/** Version of the HTTP API; raised with what the document says. */
const API_VERSION = '0.1.0';

/** The API's description of itself. */
@Controller()
export class OpenApiController {
  private document: object | undefined;

  constructor(private readonly routes: RouteTable) {}

  @Endpoint('GET', 'openapi.json', {
    summary: 'This document',
    tag: 'Service',
    scopes: [],
    answers: { 200: { description: 'OpenAPI 3.1.', schema: z.looseObject({ openapi: z.string() }) } },
  })
  get(): object {
    this.document ??= openApiDocument(this.routes.routes, API_VERSION);
    return this.document;
  }
}
