/** The types of projects that the operator reconciles. A new type is a file beside this one. */
import type { ProjectTypes } from '../controllers/project/project-type.js';
import { app } from './app.js';
import { dedicated } from './dedicated.js';
import { frontend } from './frontend.js';
import { shared } from './shared.js';

export const projectTypes: ProjectTypes = { shared, dedicated, frontend, app };
