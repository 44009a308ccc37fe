/** Writes docs/compatibility.md (`npm run generate`). */
import { writeFile } from 'node:fs/promises';
import { INDEX, renderIndex } from './index-page.js';

await writeFile(INDEX, renderIndex());
