/** Runs the conformance suite against this server. conformance.cluster.test.ts runs it against the real server. */
import { caseGroups } from './conformance/groups.js';
import { register, setUp } from './conformance/suite.js';
import { Target } from './conformance/target.js';
import { startTestApiServer } from './testing.js';

// Everything is set up before the suite is registered, because uvu may run registered tests at once.
const groups = await caseGroups();
const server = await startTestApiServer();
const ours = await setUp(new Target('ours', server.kubeconfig));
register(ours, groups, () => server.close());
