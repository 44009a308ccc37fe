/** Parameters that the OpenAPI document's operations share, by the names that PostgREST gives them. */

const inQuery = (name: string, description: string) => ({
  name,
  in: 'query',
  description,
  required: false,
  type: 'string',
});
const inHeader = (name: string, description: string) => ({ ...inQuery(name, description), in: 'header' });
const prefer = (values: string[]) => ({
  ...inHeader('Prefer', 'Preference'),
  ...(values.length > 0 ? { enum: values } : {}),
});

const RETURN = ['return=representation', 'return=minimal', 'return=none'];
const RESOLUTION = ['resolution=ignore-duplicates', 'resolution=merge-duplicates'];

export const COMMON_PARAMETERS = {
  preferParams: prefer([]),
  preferReturn: prefer(RETURN),
  preferCount: prefer(['count=none']),
  preferPost: prefer([...RETURN, ...RESOLUTION]),
  select: inQuery('select', 'Filtering Columns'),
  on_conflict: inQuery('on_conflict', 'On Conflict'),
  order: inQuery('order', 'Ordering'),
  range: inHeader('Range', 'Limiting and Pagination'),
  rangeUnit: { ...inHeader('Range-Unit', 'Limiting and Pagination'), default: 'items' },
  offset: inQuery('offset', 'Limiting and Pagination'),
  limit: inQuery('limit', 'Limiting and Pagination'),
};

export const references = (names: string[]) => names.map((name) => ({ $ref: `#/parameters/${name}` }));
