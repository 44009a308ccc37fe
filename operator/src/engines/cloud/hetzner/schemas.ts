/** The parts of the provider's responses that are used, as TypeBox schemas. Responses may have other members. */
import Type, { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';

const Id = Type.Integer({ minimum: 1 });
const NamedLabels = Type.Record(Type.String(), Type.String());
const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const Action = Type.Object({
  id: Id,
  command: Type.String(),
  status: Type.Union([Type.Literal('running'), Type.Literal('success'), Type.Literal('error')]),
  error: nullable(Type.Object({ code: Type.String(), message: Type.String() })),
});
export type Action = Static<typeof Action>;

export const Server = Type.Object({
  id: Id,
  name: Type.String(),
  status: Type.String(),
  created: Type.String(),
  labels: NamedLabels,
  public_net: Type.Object({
    ipv4: nullable(Type.Object({ ip: Type.String() })),
    firewalls: Type.Array(Type.Object({ id: Id, status: Type.String() })),
  }),
  server_type: Type.Object({
    name: Type.String(),
    cores: Type.Number(),
    /** In GB, as `disk` and `primary_disk_size`. */
    memory: Type.Number(),
    disk: Type.Number(),
  }),
  /** The disk that the machine has. Default: that of its type. */
  primary_disk_size: Type.Optional(Type.Number()),
  location: Type.Object({ name: Type.String() }),
});
export type Server = Static<typeof Server>;

const Price = Type.Object({
  location: Type.String(),
  price_monthly: Type.Object({ net: Type.String({ pattern: '^\\d{1,6}(\\.\\d+)?$' }) }),
});

export const ServerType = Type.Object({
  name: Type.String(),
  cores: Type.Number(),
  /** In GB, as `disk`. */
  memory: Type.Number(),
  disk: Type.Number(),
  architecture: Type.String(),
  prices: Type.Array(Price),
  locations: Type.Array(
    Type.Object({
      name: Type.String(),
      /** Missing in responses of earlier versions of the API. */
      available: Type.Optional(Type.Boolean()),
      deprecation: Type.Optional(nullable(Type.Object({ unavailable_after: Type.String() }))),
    }),
  ),
});
export type ServerType = Static<typeof ServerType>;

export const Image = Type.Object({
  id: Id,
  status: Type.String(),
  description: Type.String(),
  labels: NamedLabels,
  created: Type.String(),
  disk_size: Type.Number(),
});
export type Image = Static<typeof Image>;

export const SshKey = Type.Object({
  id: Id,
  name: Type.String(),
  public_key: Type.String(),
  labels: NamedLabels,
});
export type SshKey = Static<typeof SshKey>;

export const Rule = Type.Object({
  direction: Type.String(),
  protocol: Type.String(),
  port: Type.Optional(nullable(Type.String())),
  source_ips: Type.Optional(Type.Array(Type.String())),
});
export type Rule = Static<typeof Rule>;

export const Firewall = Type.Object({
  id: Id,
  name: Type.String(),
  labels: NamedLabels,
  rules: Type.Array(Rule),
});
export type Firewall = Static<typeof Firewall>;

const Page = Type.Object({ pagination: Type.Object({ next_page: nullable(Type.Integer({ minimum: 1 })) }) });

/** The body of an error response. */
export const failureBody = Compile(
  Type.Object({
    error: Type.Object({
      code: Type.String(),
      message: Type.String(),
      details: Type.Optional(
        nullable(Type.Object({ fields: Type.Optional(Type.Array(Type.Object({ name: Type.String() }))) })),
      ),
    }),
  }),
);

/** Responses without a body are decoded as an empty object. */
export const responses = {
  none: Compile(Type.Object({})),
  action: Compile(Type.Object({ action: Action })),
  actions: Compile(Type.Object({ actions: Type.Array(Action) })),
  server: Compile(Type.Object({ server: Server })),
  image: Compile(Type.Object({ image: Image })),
  imageAndAction: Compile(Type.Object({ image: Image, action: Action })),
  key: Compile(Type.Object({ ssh_key: SshKey })),
  firewall: Compile(Type.Object({ firewall: Firewall })),
  servers: Compile(Type.Object({ servers: Type.Array(Server), meta: Page })),
  server_types: Compile(Type.Object({ server_types: Type.Array(ServerType), meta: Page })),
  images: Compile(Type.Object({ images: Type.Array(Image), meta: Page })),
  ssh_keys: Compile(Type.Object({ ssh_keys: Type.Array(SshKey), meta: Page })),
  firewalls: Compile(Type.Object({ firewalls: Type.Array(Firewall), meta: Page })),
};

export interface Listed {
  servers: Server;
  server_types: ServerType;
  images: Image;
  ssh_keys: SshKey;
  firewalls: Firewall;
}
