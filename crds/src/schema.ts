/** Structural-schema pieces that Kubernetes accepts and TypeBox can type: no `anyOf`, no `const`, no `$ref`. */
import Type, { type TSchema } from 'typebox';

/** A string limited to `values`, written as Kubernetes wants it: `type: string` with `enum`. */
export function oneOf<const V extends readonly string[]>(values: V, options: Record<string, unknown> = {}) {
  return Type.Unsafe<V[number]>({ type: 'string', enum: [...values], ...options });
}

/** RFC 3339 time in UTC with seconds, as `metav1.Time`. */
export const Time = (description: string) => Type.String({ format: 'date-time', description });

/** One condition, after Kubernetes API conventions (`metav1.Condition`). */
export const Condition = Type.Object({
  type: Type.String({ maxLength: 316, description: 'What the condition speaks of, in CamelCase.' }),
  status: oneOf(['True', 'False', 'Unknown'], { description: 'Whether it holds.' }),
  reason: Type.String({ minLength: 1, maxLength: 1024, description: 'A CamelCase word for why, for programs.' }),
  message: Type.String({ maxLength: 32768, description: 'Why, for people.' }),
  observedGeneration: Type.Optional(
    Type.Integer({ minimum: 0, description: 'The metadata.generation that this was said of.' }),
  ),
  lastTransitionTime: Time('When the status last changed.'),
});
export type Condition = Type.Static<typeof Condition>;

/** Conditions as a list keyed by `type`, so that several writers can each apply their own. */
export const Conditions = Type.Optional(
  Type.Array(Condition, {
    description: 'Ready, and one per part.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  }),
);

/** Names a Secret in the project's own namespace, and the key in it. */
export const secretKey = (description: string, defaultKey: string) =>
  Type.Object(
    {
      name: Type.String({
        minLength: 1,
        maxLength: 253,
        description: "The Secret's name, in the project's namespace.",
      }),
      key: Type.Optional(Type.String({ default: defaultKey, maxLength: 253, description: 'The key in it.' })),
    },
    { description },
  );

/** A CEL rule beside a schema. */
export const rule = (cel: string, message: string) => ({ rule: cel, message });

export type { TSchema };
