/**
 * What somebody may add to a Deployment or StatefulSet, so that its pods run something else, elsewhere, or not at all: the fields that
 * the API server leaves out where nothing is said. Called by `kinds.ts`.
 */
const WORKLOAD = ['paused', 'minReadySeconds'];

const POD = [
  ...['initContainers', 'imagePullSecrets', 'readinessGates', 'activeDeadlineSeconds'],
  ...['nodeName', 'nodeSelector', 'affinity', 'tolerations', 'topologySpreadConstraints', 'runtimeClassName'],
  ...[
    'hostNetwork',
    'hostPID',
    'hostIPC',
    'hostUsers',
    'shareProcessNamespace',
    'serviceAccountName',
    'serviceAccount',
  ],
  ...['hostAliases', 'hostname', 'subdomain', 'setHostnameAsFQDN', 'dnsConfig'],
  ...['sysctls', 'supplementalGroups', 'priorityClassName', 'overhead', 'resourceClaims'],
];

const CONTAINER = [
  ...['command', 'args', 'workingDir', 'envFrom', 'volumeDevices', 'stdin', 'tty', 'subPath', 'subPathExpr'],
  ...['privileged', 'add', 'initialDelaySeconds'],
];

export const BARRED_OF_PODS: ReadonlySet<string> = new Set([...WORKLOAD, ...POD, ...CONTAINER]);
