/** Parts of structural schemas that Kubernetes accepts and TypeBox can type: no `anyOf`, no `const`, no `$ref`. */
import Type, { type TSchema } from 'typebox';

/** A string limited to `values`, in the form that Kubernetes requires: `type: string` with `enum`. */
export function oneOf<const V extends readonly string[]>(values: V, options: Record<string, unknown> = {}) {
  return Type.Unsafe<V[number]>({ type: 'string', enum: [...values], ...options });
}

/** An RFC 3339 time in UTC with seconds, like `metav1.Time`. */
export const Time = (description: string) => Type.String({ format: 'date-time', description });

/** One condition, following the Kubernetes API conventions (`metav1.Condition`). */
export const Condition = Type.Object({
  type: Type.String({ maxLength: 316, description: 'The type of the condition, in CamelCase.' }),
  status: oneOf(['True', 'False', 'Unknown'], { description: 'True, False or Unknown.' }),
  reason: Type.String({ minLength: 1, maxLength: 1024, description: 'The reason as a CamelCase word, for programs.' }),
  message: Type.String({ maxLength: 32768, description: 'The reason in a sentence, for people.' }),
  observedGeneration: Type.Optional(
    Type.Integer({ minimum: 0, description: 'The metadata.generation that this condition describes.' }),
  ),
  lastTransitionTime: Time('The time when the status last changed.'),
});
export type Condition = Type.Static<typeof Condition>;

/** Conditions are a list keyed by `type`, so that several writers can each apply their own. */
export const Conditions = Type.Optional(
  Type.Array(Condition, {
    description: 'The condition Ready, and one for each part.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  }),
);

/** A reference to a key of a Secret in the project's own namespace. */
export const secretKey = (description: string, defaultKey: string) =>
  Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: 253,
        description: "The Secret's name, in the project's namespace.",
      }),
      key: Type.Optional(Type.String({ default: defaultKey, maxLength: 253, description: 'The key in the Secret.' })),
    },
    { description },
  );

/** A CEL validation rule of a schema. */
export const rule = (cel: string, message: string) => ({ rule: cel, message });

export type { TSchema };
