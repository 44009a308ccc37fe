import { Controller } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { HealthService } from './health.service.js';

@ApiTags('discovery')
@Controller()
export class HealthController {
  constructor(private readonly health: HealthService) {}

  @Route('GET', '/health', {
    summary: 'Read the health of the platform',
    access: 'none',
    answer: { status: 200, description: 'The platform is healthy.', schema: OK, example: { ok: true } },
    problems: { 503: 'A part is unhealthy; `errors` names it: database, kubernetes or operator.' },
  })
  async getHealth(): Promise<Ok> {
    await this.health.check();
    return { ok: true };
  }
}
