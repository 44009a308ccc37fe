import { helpOr } from './help.mjs';
import { prepare } from './prepare.mjs';

helpOr('npm run build    installs packages if need be, and compiles');
prepare();
