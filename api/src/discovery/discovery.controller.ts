import { Controller, Inject, Req, Res } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import { Route } from '../http/route.js';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { SETTINGS } from '../settings/injected.js';
import { type ApiSettings } from '../settings/settings.js';
import { BackendType, backendTypesOf, exampleBackendTypes, Plan, plans, Region, regions } from './catalogue.js';
import { exampleOverview, Overview, overviewOf, pageOf, wantsPage } from './start-page.js';

@ApiTags('discovery')
@Controller()
export class DiscoveryController {
  constructor(
    @Inject(SETTINGS) private readonly settings: ApiSettings,
    private readonly cache: ProjectCache,
  ) {}

  @Route('GET', '/', {
    summary: 'Describe the installation',
    description: 'A request that accepts `text/html`, as a browser’s does, is answered with a page.',
    access: 'none',
    answer: { status: 200, description: 'Links, and the services.', schema: Overview, example: exampleOverview },
  })
  showOverview(@Req() request: FastifyRequest, @Res({ passthrough: true }) reply: FastifyReply): Overview | string {
    const overview = overviewOf(this.settings, this.cache.all().length);
    void reply.header('vary', 'Accept');
    if (!wantsPage(request.headers.accept)) return overview;
    void reply.type('text/html; charset=utf-8');
    return pageOf(overview, this.settings);
  }

  @Route('GET', '/regions', {
    summary: 'List regions of projects',
    access: 'none',
    answer: { status: 200, description: 'The regions.', schema: Type.Array(Region), example: regions },
  })
  listRegions(): Region[] {
    return regions;
  }

  @Route('GET', '/plans', {
    summary: 'List plans with their resources and prices',
    access: 'none',
    answer: { status: 200, description: 'The plans.', schema: Type.Array(Plan), example: plans },
  })
  listPlans(): Plan[] {
    return plans;
  }

  @Route('GET', '/backend-types', {
    summary: 'List types of projects',
    access: 'none',
    answer: {
      status: 200,
      description: 'The backend types.',
      schema: Type.Array(BackendType),
      example: exampleBackendTypes,
    },
  })
  listBackendTypes(): BackendType[] {
    return backendTypesOf(this.settings);
  }
}
