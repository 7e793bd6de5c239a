// Properties of column types, which the server sends as text such as `timestamp[us, UTC]`.

/** Returns true if values are aligned to the right, as numbers are. */
export const isNumeric = (type: string) => /^(u?int|float|decimal|date|time|duration)/.test(type);

/** Returns true if the server computes bins of a column's values, so that it can be plotted. */
export const isPlottable = (type: string) => isNumeric(type) && !type.startsWith("decimal256");

/** Returns true for points in time, over which other columns can be plotted. */
export const isTime = (type: string) => /^(timestamp|date)/.test(type);

/** Returns the time zone of a timestamp column, if it has one. */
export const timeZone = (type: string) => /^timestamp\[\w+, ([^\]]+)\]/.exec(type)?.[1];

/**
 * Converts a time in UTC, such as `2024-05-17 09:30:00.25Z`, to local time of a zone.
 *
 * Returns `undefined` if the zone is UTC itself, or if the browser doesn't know it.
 */
export function localTime(text: string, zone: string): string | undefined {
  const parts = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?Z$/.exec(text);
  if (!parts || zone === "UTC") return undefined;
  const [, day, clock, fraction = ""] = parts;
  const time = new Date(`${day}T${clock}Z`);
  try {
    // Swedish dates and times have the format of ISO 8601.
    const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
    const offsetFormat = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" });
    const offset = offsetFormat.formatToParts(time).find(({ type }) => type === "timeZoneName")!.value;
    return `${format.format(time)}${fraction} ${zone} (${offset.replace("GMT", "UTC")})`;
  } catch {
    return undefined;
  }
}
