/**
 * Serves `/openapi.json` and the Swagger UI at `/docs`. Both are built at the first request from what `route.ts`
 * recorded.
 */
import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { components, know } from './route.js';
import { SCOPES } from './scopes.js';

const VERSION = '1.10.0';
const PATH = '/openapi.json';
know('GET', PATH);

export function serveOpenApi(app: INestApplication, publicUrl: string) {
  SwaggerModule.setup('docs', app, () => openApiDocument(app, publicUrl), {
    jsonDocumentUrl: PATH,
    raw: ['json'],
    customSiteTitle: 'Slipway API',
  });
}

function openApiDocument(app: INestApplication, publicUrl: string): OpenAPIObject {
  const base = new DocumentBuilder()
    .setOpenAPIVersion('3.0.3')
    .setTitle('Slipway management API')
    .setVersion(VERSION)
    .setDescription(description())
    .setLicense('Apache-2.0', 'https://www.apache.org/licenses/LICENSE-2.0')
    // The first server is the API's own origin: /docs may call no other, and the public URL may have another origin.
    .addServer('/')
    .addServer(publicUrl)
    .addBearerAuth(
      { type: 'http', description: 'A user token from logging in, or a personal access token (`pat_…`).' },
      'bearer',
    )
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'apikey', description: 'The service_role key of the project.' },
      'apikey',
    )
    .addApiKey(
      { type: 'apiKey', in: 'query', name: 'token', description: 'The webhook_secret of the project.' },
      'webhook',
    )
    .addApiKey(
      { type: 'apiKey', in: 'header', name: 'x-build-ticket', description: 'The ticket of a running build.' },
      'ticket',
    )
    .build();
  const document = SwaggerModule.createDocument(app, base, { operationIdFactory: (_controller, handler) => handler });
  const paths = { ...document.paths, [PATH]: { get: OWN_OPERATION } };
  return { ...document, paths, components: { ...document.components, schemas: components as never } };
}

/**
 * Operation that describes the route of the OpenAPI document itself, which Swagger's module serves without a handler of
 * the API.
 */
const OWN_OPERATION = {
  operationId: 'readOpenApi',
  summary: 'Read this document',
  tags: ['discovery'],
  security: [],
  responses: {
    200: {
      description: 'An OpenAPI 3.0 document.',
      content: { 'application/json': { schema: { type: 'object' }, example: { openapi: '3.0.3' } } },
    },
  },
};

function description() {
  const scopes = Object.entries(SCOPES).map(([scope, meaning]) => `- \`${scope}\`: ${meaning}`);
  return [
    'Accounts, personal access tokens and projects. Errors are problem documents (RFC 9457).',
    'Beyond its listed responses, any route may answer 405, 414, 415, 429, 431 or 500, as problem documents too, and ' +
      '403 to a page of another origin.',
    'Scopes of a personal access token; a user token has them all:',
    scopes.join('\n'),
  ].join('\n\n');
}
