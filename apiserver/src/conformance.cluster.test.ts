/**
 * Runs the conformance suite, unchanged, against the real kube-apiserver if there is one. If its responses differ from
 * the cases, then the cases and this server are wrong.
 */
import { caseGroups } from './conformance/groups.js';
import { register, setUp } from './conformance/suite.js';
import { Target } from './conformance/target.js';
import { referenceKubeconfig } from './reference-kubeconfig.js';

const kubeconfig = referenceKubeconfig();
if (kubeconfig !== undefined) {
  // Everything is set up before the suite is registered, because uvu may run registered tests at once.
  const groups = await caseGroups();
  register(await setUp(new Target('real', kubeconfig)), groups, async () => {});
}
