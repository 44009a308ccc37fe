/** `/openapi.json` and the Swagger UI at `/docs`: built when first asked for, from what `route.ts` recorded. */
import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { SCOPES } from '../access/scopes.js';
import { components } from './route.js';

const VERSION = '1.4.0';

export function serveOpenApi(app: INestApplication, publicUrl: string) {
  SwaggerModule.setup('docs', app, () => openApiDocument(app, publicUrl), {
    jsonDocumentUrl: 'openapi.json',
    raw: ['json'],
    customSiteTitle: 'Slipway API',
  });
}

export function openApiDocument(app: INestApplication, publicUrl: string): OpenAPIObject {
  const base = new DocumentBuilder()
    .setOpenAPIVersion('3.0.3')
    .setTitle('Slipway management API')
    .setVersion(VERSION)
    .setDescription(description())
    .setLicense('Apache-2.0', 'https://www.apache.org/licenses/LICENSE-2.0')
    .addServer(publicUrl)
    .addBearerAuth(
      { type: 'http', description: 'A user token from logging in, or a personal access token (`pat_…`).' },
      'bearer',
    )
    .build();
  const document = SwaggerModule.createDocument(app, base, { operationIdFactory: (_controller, handler) => handler });
  return { ...document, components: { ...document.components, schemas: components as never } };
}

function description() {
  const scopes = Object.entries(SCOPES).map(([scope, meaning]) => `- \`${scope}\`: ${meaning}`);
  return [
    'Accounts, personal access tokens and projects. Errors are problem documents (RFC 9457).',
    'Scopes of a personal access token; a user token has them all:',
    scopes.join('\n'),
  ].join('\n\n');
}
