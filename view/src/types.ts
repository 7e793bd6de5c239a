// The meaning of column types for the page.

/** Returns true if values are aligned to the right, as numbers are. */
export const isNumeric = (type: string) => /^(u?int|float|decimal|date|time|duration)/.test(type);

/** Returns true if a column can be plotted by its numbers. */
export const isDrawn = (type: string) => isNumeric(type) && !type.startsWith("decimal256");

/** Returns true for points in time, over which other columns are plotted. */
export const isTime = (type: string) => /^(timestamp|date)/.test(type);

/** Returns the time zone of a column of times. */
export const zoneOf = (type: string) => /^timestamp\[\w+, ([^\]]+)\]/.exec(type)?.[1];

/** Returns a time in UTC, such as `2024-05-17 09:30:00.25Z`, as local time of a zone; nothing if the browser doesn't know the zone. */
export function localTime(text: string, zone: string): string | undefined {
  const parts = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?Z$/.exec(text);
  if (!parts || zone === "UTC") return undefined;
  const [, day, clock, fraction = ""] = parts;
  try {
    const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
    const offset = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" }).formatToParts(
      new Date(`${day}T${clock}Z`),
    );
    const name = offset.find(({ type }) => type === "timeZoneName")!.value.replace("GMT", "UTC");
    return `${format.format(new Date(`${day}T${clock}Z`))}${fraction} ${zone} (${name})`;
  } catch {
    return undefined;
  }
}
