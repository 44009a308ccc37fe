/** The labels of objects at the provider: selects objects by them. */
import type { Labels } from '../provider.js';
import { ProviderError } from '../provider-error.js';

const LABEL = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const LABEL_KEY = /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

/** Returns the query that selects objects with all of the labels. */
export function selectorOf(labels: Labels): { label_selector: string } {
  const entries = Object.entries(labels);
  if (entries.length === 0) throw new ProviderError('invalid', 'No labels: they would select all in the account.');
  const wrong = entries.find(([key, value]) => !LABEL_KEY.test(key) || !LABEL.test(value));
  if (wrong) throw new ProviderError('invalid', `The cloud provider does not accept the label ${wrong.join('=')}.`);
  return { label_selector: entries.map(([key, value]) => `${key}=${value}`).join(',') };
}

export const hasLabels = (object: { labels: Labels }, labels: Labels) =>
  Object.entries(labels).every(([key, value]) => object.labels[key] === value);
