/** How the data plane's own login reaches a project's database, as `pg` takes it. */
export interface Login {
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
}
