import { stringify } from 'yaml';
import { customResourceDefinitions } from './index.js';

/** Returns each CRD as a YAML file, and a kustomization that lists the files. */
export function manifestFiles(): { file: string; yaml: string }[] {
  const header = '# Generated from crds/src by `npm run generate`. Do not edit.\n';
  const crds = customResourceDefinitions.map((crd) => ({
    file: `${crd.spec.names.plural}.yaml`,
    yaml: header + stringify(crd, { lineWidth: 120, aliasDuplicateObjects: false }),
  }));
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: crds.map(({ file }) => file),
  };
  return [...crds, { file: 'kustomization.yaml', yaml: header + stringify(kustomization) }];
}
