/** Who may speak MCP with a project, and one exchange of it. */
import { timingSafeEqual } from 'node:crypto';
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import { SECRETS } from '@slipway/crds';
import { jwtVerify } from 'jose';
import type { Logger } from 'pino';
import { Problem } from '../http/problem.js';
import { LOG, SETTINGS } from '../platform.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { ProjectsService } from '../projects/projects.service.js';
import type { ApiSettings } from '../settings.js';
import { McpTools, type ToolProject, type ToolRequest } from './tools.js';

@Injectable()
export class McpService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
    private readonly tools: McpTools,
    @Inject(LOG) private readonly log: Logger,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  /** A project that is not there, and a key that is not its own, are refused alike. */
  async prove(id: number, apikey: string | undefined): Promise<ToolProject> {
    // Nothing is read for whoever shows nothing.
    const project = apikey ? await this.projects.unproved(id) : undefined;
    const keys = project && (await this.secrets.keys(project));
    const serviceRoleKey = keys?.[SECRETS.keys.serviceRoleKey];
    if (!project || !apikey || !serviceRoleKey || !(await opens(keys, apikey))) {
      throw new Problem('unauthorized', 'Send the project’s service_role key in the header `apikey`.', {
        headers: { 'www-authenticate': 'apikey' },
      });
    }
    return { id, project, serviceRoleKey, installation: this.settings };
  }

  /** A page of another site must not speak through its reader's browser (DNS rebinding). */
  refuseForeign(origin: string | undefined): void {
    if (origin === undefined || origin === new URL(this.settings.publicUrl).origin) return;
    throw new Problem('not_allowed', 'Requests from pages of other sites are refused: leave out the header `Origin`.');
  }

  /** Stateless, each answer one JSON body: of the current revision, and of those before it that begin with `initialize`. */
  async exchange(asked: ToolRequest, request: Request, body: unknown): Promise<Response> {
    // The SDK answers these itself; of what it quotes of the message the log needs no more than the beginning.
    const onerror = ({ message }: Error) =>
      this.log.warn({ request: asked.request.id, error: message.slice(0, 200) }, 'the MCP SDK did not serve a message');
    const serverOf = () => {
      const server = this.tools.serverOf(asked);
      server.server.onerror = onerror;
      return server;
    };
    if (!(await isLegacyRequest(request, body))) {
      const handler = createMcpHandler(serverOf, { legacy: 'reject', onerror });
      return handler.fetch(request, { parsedBody: body });
    }
    const server = serverOf();
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    await server.connect(transport);
    try {
      return await transport.handleRequest(request, { parsedBody: body });
    } finally {
      await server.close();
    }
  }
}

/** The key as it is; and while secrets are rotated one that another of them signed, as the data plane takes it too. */
async function opens(keys: Record<string, string>, apikey: string): Promise<boolean> {
  if (isSame(apikey, keys[SECRETS.keys.serviceRoleKey] ?? '')) return true;
  const { nextJwtSecret, previousJwtSecret, jwtSecret } = SECRETS.keys;
  for (const secret of [keys[jwtSecret], keys[nextJwtSecret], keys[previousJwtSecret]]) {
    if (!secret) continue;
    const verified = await jwtVerify(apikey, new TextEncoder().encode(secret), { algorithms: ['HS256'] }).catch(
      () => undefined,
    );
    if (verified) return verified.payload.role === 'service_role';
  }
  return false;
}

function isSame(given: string, own: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(own)];
  return a.length === b.length && timingSafeEqual(a, b);
}
