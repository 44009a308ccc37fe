/** Proves an MCP client's right to a project, and serves one message. */
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { LOG, SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';
import { McpKeys } from './mcp-keys.js';
import { messageOf } from './message.js';
import { McpTools, type ToolProject, type ToolRequest } from './tools.js';

@Injectable()
export class McpService {
  constructor(
    private readonly keys: McpKeys,
    private readonly tools: McpTools,
    @Inject(LOG) private readonly log: Logger,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  /** Throws 401 for a wrong key, 429 for too many of them. */
  async prove(id: number, apikey: string | undefined, address: string): Promise<ToolProject> {
    return { id, ...(await this.keys.prove(id, apikey, address)), installation: this.settings };
  }

  /**
   * Stateless, each answer one JSON body: of the current revision, and of those before it that begin with `initialize`.
   */
  async exchange(asked: ToolRequest, request: Request, posted: unknown): Promise<Response> {
    const body = messageOf(posted);
    if (body instanceof Response) return body;
    // The SDK answers these itself; of what it quotes of the message the log needs no more than the beginning.
    const onerror = ({ message }: Error) =>
      this.log.warn({ request: asked.request.id, error: message.slice(0, 200) }, 'MCP message not served');
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
