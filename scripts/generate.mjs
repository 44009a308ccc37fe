import { prepare, runNode } from './prepare.mjs';

prepare();
runNode(['crds/dist/generate.js', 'manifests/crds']);
