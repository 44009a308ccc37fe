/** The lines that a process prints around the output of each of its test files. */
export const BEGIN = '\u0001begins ';
export const END = '\u0001ended ';
/** Begins the line before the output of programs that a test started. */
export const TEST = '\u0001test ';
