/**
 * Helpers for the tests of every folder: wait for a condition, find a free port, inspect a process, measure processor
 * time, keep a program's output. In: none of our packages. Imported by tests alone. A helper that needs the types of
 * one folder is in that folder.
 */
export { freePort, isFreePort } from './free-port.js';
export { isAlive, parentOf } from './processes.js';
export { medianOfFive, medianOfFiveLater, processorTimeOf, startWatch, TURN_MS } from './processor-time.js';
export { keepForReport } from './program-log.js';
export { until } from './until.js';
