/** Injection tokens of providers that are not classes. */
export const SETTINGS = Symbol('settings');
export const LOG = Symbol('log');
