import { Controller, Inject } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Route } from '../http/route.js';
import { SETTINGS } from '../platform.js';
import { type ApiSettings } from '../settings.js';
import { BackendType, backendTypes, openedBackendTypes, Plan, plans, Region, regions } from './catalogue.js';

@ApiTags('discovery')
@Controller()
export class DiscoveryController {
  constructor(@Inject(SETTINGS) private readonly settings: ApiSettings) {}

  @Route('GET', '/regions', {
    summary: 'Where a project can run',
    access: 'none',
    answer: { status: 200, description: 'The regions.', schema: Type.Array(Region), example: regions },
  })
  listRegions(): Region[] {
    return regions;
  }

  @Route('GET', '/plans', {
    summary: 'What a project can use, and its price',
    access: 'none',
    answer: { status: 200, description: 'The plans.', schema: Type.Array(Plan), example: plans },
  })
  listPlans(): Plan[] {
    return plans;
  }

  @Route('GET', '/backend-types', {
    summary: 'What a project can be',
    access: 'none',
    answer: { status: 200, description: 'The backend types.', schema: Type.Array(BackendType), example: backendTypes },
  })
  listBackendTypes(): BackendType[] {
    return openedBackendTypes(this.settings.openedServices);
  }
}
