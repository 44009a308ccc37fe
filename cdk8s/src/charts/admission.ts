/**
 * Admission policies for rules that roles can't express, as projects' namespaces come and go. Programs write in
 * projects' namespaces alone; the operator also writes what the platform's namespaces need. No program may give a
 * namespace to another project or make it less secure, and no pod may do more than `restricted` allows or run as
 * another account. So an attacker who took over a program reaches no node and no other account, but controls the
 * projects' namespaces.
 */
import {
  BUILDS_NAMESPACE,
  DATA_NAMESPACE,
  LABEL_PROJECT,
  namespaceOf,
  PROGRAMS,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import { Chart } from 'cdk8s';
import type { Construct } from 'constructs';
import { add } from '../objects.js';

const accountName = (program: string) => `system:serviceaccount:${SYSTEM_NAMESPACE}:${program}`;
const quoted = (...texts: string[]) => texts.map((text) => `'${text}'`).join(', ');

const SECRET_TYPES = ['Opaque', 'kubernetes.io/basic-auth', 'kubernetes.io/dockerconfigjson'];
const WRITTEN: Record<string, string[]> = {
  '': ['namespaces', 'secrets', 'configmaps', 'services', 'resourcequotas', 'limitranges'],
  apps: ['deployments', 'statefulsets'],
  batch: ['jobs'],
  'networking.k8s.io': ['networkpolicies'],
};

const PROJECT = `?'${LABEL_PROJECT}'`;
const ENFORCE = `?'pod-security.kubernetes.io/enforce'`;
const labelsOf = (object: string) => `${object}.metadata.?labels.orValue({})`;

const PLACES: Policy = {
  written: WRITTEN,
  operations: ['CREATE', 'UPDATE', 'DELETE'],
  variables: {
    isNamespace: `request.resource.resource == 'namespaces'`,
    place: `variables.isNamespace ? request.name : request.namespace`,
    before: `oldObject == null ? {} : ${labelsOf('oldObject')}`,
    after: `object == null ? {} : ${labelsOf('object')}`,
    /** Labels of the namespace, or of the object's namespace. */
    labels:
      'variables.isNamespace ? (object != null ? variables.after : variables.before) ' +
      `: ${labelsOf('namespaceObject')}`,
    isProjects:
      `variables.place.startsWith('${namespaceOf('')}') ` +
      `&& variables.place == '${namespaceOf('')}' + variables.labels[${PROJECT}].orValue('')`,
    isOperator: `request.userInfo.username == '${accountName(PROGRAMS.operator)}'`,
    isSecret: `request.resource.resource == 'secrets'`,
    isPlatforms:
      `!variables.isNamespace && (variables.place == '${DATA_NAMESPACE}' ` +
      `|| (variables.place == '${SYSTEM_NAMESPACE}' && variables.isSecret) ` +
      `|| (variables.place == '${BUILDS_NAMESPACE}' ` +
      "&& (variables.isSecret || request.resource.resource == 'jobs')))",
    isUpdated: 'variables.isNamespace && object != null && oldObject != null',
  },
  validations: [
    {
      expression: 'variables.isProjects || (variables.isOperator && variables.isPlatforms)',
      message:
        "Slipway's programs write in the namespaces of projects alone: " +
        `${namespaceOf('<ref>')}, labelled ${LABEL_PROJECT}=<ref>`,
    },
    {
      expression:
        `!variables.isUpdated || variables.before[${PROJECT}].orValue('') ` +
        `== variables.after[${PROJECT}].orValue('')`,
      message:
        "Slipway's programs take over no namespace: " +
        `label it ${LABEL_PROJECT}=<ref> yourself to let a project have it`,
    },
    {
      // An existing namespace without the label may be updated for another reason before the label is restored.
      expression:
        `!variables.isNamespace || object == null || variables.after[${ENFORCE}].orValue('') ` +
        `in ['restricted', variables.before[${ENFORCE}].orValue('')]`,
      message: "Slipway's programs let the namespaces of projects enforce no other pod security than restricted",
    },
  ],
};

const SECRETS: Policy = {
  written: { '': ['secrets'] },
  operations: ['CREATE', 'UPDATE', 'DELETE'],
  variables: {},
  validations: [
    {
      expression: `object == null || object.?type.orValue('Opaque') in [${quoted(...SECRET_TYPES)}]`,
      message: "Slipway's programs make no Secrets that the cluster fills or trusts: of service accounts and the like",
    },
  ],
};

/** Applies whatever the namespace enforces: a new namespace has no pod-security label yet. */
const PODS: Policy = {
  written: { apps: ['deployments', 'statefulsets'], batch: ['jobs'] },
  operations: ['CREATE', 'UPDATE'],
  variables: {
    pod: 'object.spec.template.spec',
    containers: 'variables.pod.containers + variables.pod.?initContainers.orValue([])',
  },
  validations: [
    {
      expression:
        "variables.pod.?serviceAccountName.orValue('') in ['', 'default'] " +
        "&& variables.pod.?serviceAccount.orValue('') in ['', 'default']",
      message: "the pods that Slipway's programs make run as no service account",
    },
    {
      expression:
        '!variables.pod.?hostNetwork.orValue(false) && !variables.pod.?hostPID.orValue(false) ' +
        '&& !variables.pod.?hostIPC.orValue(false)',
      message: "the pods that Slipway's programs make have nothing of their node",
    },
    {
      expression: 'variables.pod.?volumes.orValue([]).all(volume, !has(volume.hostPath))',
      message: "the pods that Slipway's programs make have no volumes of their node",
    },
    {
      expression:
        'variables.containers.all(container, ' +
        'container.?securityContext.?allowPrivilegeEscalation.orValue(true) == false' +
        ' && !container.?securityContext.?privileged.orValue(false)' +
        ' && container.?securityContext.?capabilities.?add.orValue([]).size() == 0' +
        ' && container.?ports.orValue([]).all(port, !has(port.hostPort)))',
      message: "the containers that Slipway's programs make have no privileges",
    },
  ],
};

export class Admission extends Chart {
  constructor(scope: Construct) {
    super(scope, 'admission');
    policy(this, 'slipway-programs-places', PLACES);
    policy(this, 'slipway-programs-secrets', SECRETS);
    policy(this, 'slipway-programs-pods', PODS);
  }
}

interface Policy {
  /** Resources by API group. */
  written: Record<string, string[]>;
  operations: string[];
  variables: Record<string, string>;
  validations: { expression: string; message: string }[];
}

function policy(chart: Chart, name: string, { written, operations, variables, validations }: Policy): void {
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
          operations,
          resources,
        })),
      },
      matchConditions: [{ name: 'program', expression: `request.userInfo.username in [${quoted(...programs)}]` }],
      variables: Object.entries(variables).map(([name, expression]) => ({ name, expression })),
      validations,
    },
  });
  add(chart, 'ValidatingAdmissionPolicyBinding', {
    metadata,
    spec: { policyName: name, validationActions: ['Deny'] },
  });
}
