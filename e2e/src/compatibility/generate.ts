/** `npm run generate`: writes docs/compatibility.md. */
import { writeFile } from 'node:fs/promises';
import { INDEX, renderIndex } from './index-page.js';

await writeFile(INDEX, renderIndex());
