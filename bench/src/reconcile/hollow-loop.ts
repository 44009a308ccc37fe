/**
 * The minimal loop, in a process of its own: client-node's informer without a handler. In, over IPC: the number of
 * events to count. Out: a message when that number has arrived.
 */
import { CustomObjectsApi, KubeConfig, type KubernetesListObject, makeInformer } from '@kubernetes/client-node';
import {
  RESOURCE_GROUP as group,
  NAMESPACE as namespace,
  RESOURCE_PLURAL as plural,
  RESOURCE_VERSION as version,
  WIDGETS_PATH,
  type Widget,
} from './resource.js';
import { Tally } from './tally.js';

const tally = new Tally();
process.once('message', async () => {
  const config = new KubeConfig();
  config.loadFromDefault();
  const api = config.makeApiClient(CustomObjectsApi);
  const list = (): Promise<KubernetesListObject<Widget>> =>
    api.listNamespacedCustomObject({ group, version, namespace, plural });
  const informer = makeInformer(config, WIDGETS_PATH, list);
  informer.on('change', () => tally.handled());
  informer.on('error', (error) => {
    throw error;
  });
  await informer.start();
});
