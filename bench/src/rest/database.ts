/** Connection settings of the data plane's login in a project's database, for `pg`. */
export interface Login {
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
}
