// Search for columns by name.

import type { Column } from "./api.js";

/** Returns the columns whose names equal, begin with, or contain a text, in this order. */
export function named(columns: Column[], wanted: string): number[] {
  const rank = (name: string) => (name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3);
  const ranked = columns.map(({ name }, column) => ({ column, rank: rank(name.toLowerCase()) }));
  return ranked
    .filter(({ rank }) => rank < 3)
    .sort((a, b) => a.rank - b.rank)
    .map(({ column }) => column);
}
