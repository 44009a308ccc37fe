/** Login role and address of a project's database, as `pg` expects them. */
export interface Login {
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
  /** Password that replaces it during a rotation. */
  nextPassword?: string | undefined;
  /** Account that owns the project, if known. Its projects share budgets. */
  account?: string | undefined;
  /** Ref of the project, for the watchdog. */
  project?: string;
}
