/** The benches are run by `npm run bench`; nothing imports them. */
export {};
