/**
 * What no role can say, as projects' namespaces come and go: the programs write in those alone, and the operator in the platform's two. So
 * a program that somebody took over reaches no other namespace, and makes itself no token of another account.
 */
import { DATA_NAMESPACE, LABEL_PROJECT, namespaceOf, PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/crds';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { add } from '../objects.js';

const accountName = (program: string) => `system:serviceaccount:${SYSTEM_NAMESPACE}:${program}`;
const quoted = (...texts: string[]) => texts.map((text) => `'${text}'`).join(', ');

const SECRET_TYPES = ['Opaque', 'kubernetes.io/basic-auth', 'kubernetes.io/dockerconfigjson'];
const WRITTEN: Record<string, string[]> = {
  '': ['namespaces', 'secrets', 'configmaps', 'services', 'resourcequotas', 'limitranges'],
  apps: ['deployments', 'statefulsets'],
  'networking.k8s.io': ['networkpolicies'],
};

const VARIABLES = {
  isNamespace: `request.resource.resource == 'namespaces'`,
  place: `variables.isNamespace ? request.name : request.namespace`,
  /** Of the namespace, or the one that the object is in. */
  labels: `variables.isNamespace ? (object != null ? object : oldObject).metadata.?labels.orValue({}) : namespaceObject.metadata.?labels.orValue({})`,
  isProjects: `variables.place.startsWith('${namespaceOf('')}') && '${LABEL_PROJECT}' in variables.labels`,
  isPlatforms: `!variables.isNamespace && variables.place in [${quoted(SYSTEM_NAMESPACE, DATA_NAMESPACE)}]`,
  isOperator: `request.userInfo.username == '${accountName(PROGRAMS.operator)}'`,
};

export class Admission extends Chart {
  constructor(scope: Construct) {
    super(scope, 'admission');
    policy(this, 'slipway-programs-places', {
      written: WRITTEN,
      variables: VARIABLES,
      expression: 'variables.isProjects || (variables.isOperator && variables.isPlatforms)',
      message: `Slipway's programs write in the namespaces of projects alone: ${namespaceOf('<ref>')}, labelled ${LABEL_PROJECT}`,
    });
    policy(this, 'slipway-programs-secrets', {
      written: { '': ['secrets'] },
      variables: {},
      expression: `object == null || object.?type.orValue('Opaque') in [${quoted(...SECRET_TYPES)}]`,
      message: "Slipway's programs make no Secrets that the cluster fills or trusts: of service accounts and the like",
    });
  }
}

interface Policy {
  /** Resources by API group. */
  written: Record<string, string[]>;
  variables: Record<string, string>;
  expression: string;
  message: string;
}

function policy(chart: Chart, name: string, { written, variables, expression, message }: Policy): void {
  const metadata = { name, labels: { 'app.kubernetes.io/part-of': 'slipway' } };
  const programs = [PROGRAMS.operator, PROGRAMS.api].map(accountName);
  add(chart, 'ValidatingAdmissionPolicy', {
    metadata,
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: {
        resourceRules: Object.entries(written).map(([group, resources]) => ({
          apiGroups: [group],
          apiVersions: ['v1'],
          operations: ['CREATE', 'UPDATE', 'DELETE'],
          resources,
        })),
      },
      matchConditions: [{ name: 'program', expression: `request.userInfo.username in [${quoted(...programs)}]` }],
      variables: Object.entries(variables).map(([name, expression]) => ({ name, expression })),
      validations: [{ expression, message }],
    },
  });
  add(chart, 'ValidatingAdmissionPolicyBinding', {
    metadata,
    spec: { policyName: name, validationActions: ['Deny'] },
  });
}
