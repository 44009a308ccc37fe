import { Module } from '@nestjs/common';
import { ProjectsModule } from '../projects/projects.module.js';
import { EntryIntake } from './entry-intake.js';
import { EntryServer } from './entry-server.js';
import { EntrySweep } from './entry-sweep.js';
import { FormsController } from './forms.controller.js';
import { FormsRepository } from './forms.repository.js';
import { FormsService } from './forms.service.js';

@Module({
  imports: [ProjectsModule],
  controllers: [FormsController],
  providers: [EntryIntake, EntryServer, EntrySweep, FormsRepository, FormsService],
})
export class FormsModule {}
