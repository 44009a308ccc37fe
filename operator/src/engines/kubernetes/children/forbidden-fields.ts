/**
 * Fields that the API server leaves empty by default, and that others must not set. In a Deployment or StatefulSet they
 * could make its pods run other code, run elsewhere, or not run. In a Service they could give others access or redirect
 * requests. Fields with defaults are set in the objects themselves. Called by `kinds.ts`.
 */
const WORKLOAD = ['paused', 'minReadySeconds', 'ordinals'];

const POD = [
  ...['initContainers', 'ephemeralContainers', 'imagePullSecrets', 'readinessGates', 'activeDeadlineSeconds', 'os'],
  ...['nodeName', 'nodeSelector', 'affinity', 'tolerations', 'topologySpreadConstraints', 'runtimeClassName'],
  ...['schedulingGates', 'schedulingGroup', 'priority', 'priorityClassName', 'preemptionPolicy'],
  ...['hostNetwork', 'hostPID', 'hostIPC', 'hostUsers', 'shareProcessNamespace'],
  ...['serviceAccountName', 'serviceAccount'],
  ...['hostAliases', 'hostname', 'hostnameOverride', 'subdomain', 'setHostnameAsFQDN', 'dnsConfig'],
  ...['resources', 'overhead', 'resourceClaims'],
];

const CONTAINER = [
  ...['command', 'args', 'workingDir', 'stdin', 'stdinOnce', 'tty'],
  ...['envFrom', 'prefix', 'configMapRef', 'value', 'valueFrom'],
  ...['livenessProbe', 'initialDelaySeconds', 'exec', 'grpc', 'tcpSocket', 'httpGet'],
  // Fields of a container and of a probe. The pod's own fields of these names are set.
  ...['restartPolicy', 'restartPolicyRules', 'resizePolicy', 'terminationGracePeriodSeconds'],
  ...['hostIP', 'hostPort'],
];

const VOLUME = [
  ...['volumeDevices', 'subPath', 'subPathExpr', 'readOnly', 'recursiveReadOnly', 'mountPropagation'],
  ...['items', 'optional'],
];

export const FORBIDDEN_IN_PODS: ReadonlySet<string> = new Set([...WORKLOAD, ...POD, ...CONTAINER, ...VOLUME]);

export const FORBIDDEN_IN_SERVICES: ReadonlySet<string> = new Set([
  ...['externalIPs', 'externalName', 'externalTrafficPolicy', 'healthCheckNodePort', 'publishNotReadyAddresses'],
  ...['loadBalancerClass', 'loadBalancerIP', 'loadBalancerSourceRanges', 'allocateLoadBalancerNodePorts'],
  ...['sessionAffinityConfig', 'trafficDistribution', 'appProtocol', 'nodePort'],
]);
