import type { KubeObject } from '../../objects.js';
import type { FieldError, JsonObject } from '../../schema/index.js';
import type { BuiltinKind } from '../builtin.js';
import { ageColumn, nameColumn } from '../columns.js';

const specOf = (object: JsonObject) => (object.spec ?? {}) as Record<string, unknown>;

export const lease: BuiltinKind = {
  kind: 'Lease',
  unconditionalUpdate: false,
  createOnUpdate: true,
  columns: [
    nameColumn,
    {
      name: 'Holder',
      type: 'string',
      description:
        'holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is ' +
        'used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.',
      cell: (object) => specOf(object).holderIdentity ?? '',
    },
    ageColumn,
  ],
  strategy: { decode, validate },
};

/** Checks the times of a lease, which must be in microseconds, like metav1.MicroTime. */
function decode(object: JsonObject): string | undefined {
  for (const field of ['acquireTime', 'renewTime']) {
    const value = specOf(object)[field];
    if (value === undefined || value === null || typeof value !== 'string') continue;
    const layout = `parsing time ${JSON.stringify(value)} as "2006-01-02T15:04:05.000000Z07:00": cannot parse`;
    if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$/.test(value)) continue;
    const whole = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/.exec(value)?.[0];
    return whole
      ? `${layout} ${JSON.stringify(value.slice(whole.length))} as ".000000"`
      : `${layout} ${JSON.stringify(value)} as "2006"`;
  }
  return undefined;
}

function validate(object: KubeObject): FieldError[] {
  const { leaseDurationSeconds, leaseTransitions } = specOf(object) as Record<string, number | undefined>;
  const errors: FieldError[] = [];
  if (leaseDurationSeconds !== undefined && leaseDurationSeconds <= 0) {
    errors.push(invalid('spec.leaseDurationSeconds', leaseDurationSeconds, 'must be greater than 0'));
  }
  if (leaseTransitions !== undefined && leaseTransitions < 0) {
    errors.push(invalid('spec.leaseTransitions', leaseTransitions, 'must be greater than or equal to 0'));
  }
  return errors;
}

const invalid = (field: string, badValue: unknown, detail: string): FieldError => ({
  type: 'FieldValueInvalid',
  field,
  badValue,
  detail,
});
