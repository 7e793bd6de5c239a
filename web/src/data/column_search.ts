// Search for columns by name.

import type { Column } from "./api.js";

/** Returns the rank of a match, the best of which is 0; `undefined` if the name does not match. */
function matchRank(name: string, text: string): number | undefined {
  if (name === text) return 0;
  if (name.startsWith(text)) return 1;
  if (name.includes(text)) return 2;
  return undefined;
}

/** Returns the numbers of columns whose names equal, begin with, or contain a lower-case text, in this order. */
export function findColumns(columns: Column[], text: string): number[] {
  const matches: { column: number; rank: number }[] = [];
  columns.forEach(({ name }, column) => {
    const rank = matchRank(name.toLowerCase(), text);
    if (rank !== undefined) matches.push({ column, rank });
  });
  return matches.sort((a, b) => a.rank - b.rank).map(({ column }) => column);
}
