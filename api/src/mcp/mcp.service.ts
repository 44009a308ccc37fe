/** Authenticates an MCP client, and serves one message. */
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
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
   * Serves one message without a session, with one JSON body. Accepts the current revision, and those before it that
   * begin with `initialize`.
   */
  async exchange(toolRequest: ToolRequest, request: Request, posted: unknown): Promise<Response> {
    const body = messageOf(posted);
    if (body instanceof Response) return body;
    // The SDK responds to these errors itself. The log needs only the beginning of a message that they quote.
    const onerror = ({ message }: Error) =>
      this.log.warn({ request: toolRequest.request.id, error: message.slice(0, 200) }, 'MCP message not served');
    const serverOf = () => {
      const server = this.tools.serverOf(toolRequest);
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
