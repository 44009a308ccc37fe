import { Body, Controller, Inject, Param, Req, Res } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import { ProjectId } from '../projects/project.schema.js';
import { NO_PROJECT } from '../projects/project-problems.js';
import { ProjectsService } from '../projects/projects.service.js';
import { refuseWithoutDatabase } from '../projects/without-database.js';
import { SETTINGS } from '../settings/injected.js';
import { type ApiSettings } from '../settings/settings.js';
import { McpDetails, RpcAnswer, RpcMessage } from './mcp.schema.js';
import { McpService } from './mcp.service.js';
import { PROTOCOL_VERSIONS } from './protocol-versions.js';
import { TOOL_NAMES } from './tools.js';

const EXAMPLE_URL = 'http://localhost:4000/projects/1/mcp';
const EXAMPLE_DETAILS: McpDetails = {
  url: EXAMPLE_URL,
  transport: 'streamable-http',
  protocol_versions: [...PROTOCOL_VERSIONS],
  header: 'apikey',
  sql_read_only: true,
  tools: [...TOOL_NAMES],
  config: {
    mcpServers: { 'slipway-my-shop': { type: 'http', url: EXAMPLE_URL, headers: { apikey: '<service_role key>' } } },
  },
};

@ApiTags('mcp')
@Controller()
export class McpController {
  constructor(
    private readonly projects: ProjectsService,
    private readonly mcp: McpService,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  @Route('GET', '/projects/{id}/mcp', {
    summary: 'Describe the MCP endpoint',
    description: 'The URL for a Model Context Protocol client, and its configuration.',
    access: 'projects:read',
    params: ProjectId,
    answer: { status: 200, description: 'The endpoint.', schema: McpDetails, example: EXAMPLE_DETAILS },
    problems: {
      400: { kind: 'no_database', text: 'The project has no database, or the id is not valid.' },
      ...NO_PROJECT,
    },
  })
  async readMcp(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<McpDetails> {
    const { project } = await this.projects.find(caller, id);
    refuseWithoutDatabase(project, 'MCP endpoint');
    const { name, service_role_key, mcp_writes } = await this.projects.read(caller, id);
    const url = `${this.settings.publicUrl}/projects/${id}/mcp`;
    const headers = { apikey: service_role_key ?? '<service_role key>' };
    return {
      ...EXAMPLE_DETAILS,
      url,
      sql_read_only: !mcp_writes,
      config: { mcpServers: { [`slipway-${name}`]: { type: 'http', url, headers } } },
    };
  }

  @Route('POST', '/projects/{id}/mcp', {
    summary: 'Speak MCP',
    description:
      'One JSON-RPC 2.0 message of the Model Context Protocol (streamable HTTP, stateless). ' +
      'It takes the project’s service_role key in the header `apikey`, and no bearer token.',
    access: 'apikey',
    params: ProjectId,
    body: RpcMessage,
    ownBodyCheck: true,
    bodyExamples: { ping: { jsonrpc: '2.0', id: 1, method: 'ping' } },
    answer: {
      status: 200,
      description: 'The answer.',
      schema: RpcAnswer,
      example: { jsonrpc: '2.0', id: 1, result: {} },
    },
    answerErrors: [400, 406],
    emptyAnswers: { 202: 'The message was a notification, which is not answered.' },
    problems: {
      401: 'The header `apikey` does not carry the service_role key of such a project.',
      403: 'The request comes from a page of another site.',
      429: 'Too many wrong keys came from the caller’s network.',
      406: 'The client does not accept `application/json`.',
    },
  })
  async callMcp(
    @Param() { id }: ProjectId,
    @Body() body: unknown,
    @Req() request: FastifyRequest,
    @Res() reply: FastifyReply,
    @CallerSignal() signal: AbortSignal,
  ): Promise<void> {
    const { apikey } = request.headers;
    const project = await this.mcp.prove(id, typeof apikey === 'string' ? apikey : undefined, request.ip);
    const response = await this.mcp.exchange({ ...project, request, signal }, webRequest(request), body);
    const headers = Object.fromEntries(response.headers);
    await reply
      .status(response.status)
      .headers(headers)
      .send(await response.text());
  }
}

const TAKES_JSON = /(?:application|\*)\/(?:json|\*)/i;

/** Converts the request to the web's type for the SDK, which gets the parsed body separately. */
function webRequest({ headers, url, hostname }: FastifyRequest): Request {
  const single = Object.entries(headers).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  const ofBody = ['content-length', 'transfer-encoding', 'connection'];
  const passed = Object.fromEntries(single.filter(([name]) => !ofBody.includes(name)));
  // Each response is one JSON body. A client that accepts JSON, or names no type, is served, although the protocol
  // requires both types.
  if (!passed.accept || TAKES_JSON.test(passed.accept)) passed.accept = 'application/json, text/event-stream';
  return new Request(`http://${hostname || 'localhost'}${url}`, { method: 'POST', headers: passed, body: '{}' });
}
