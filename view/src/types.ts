// What the types of columns mean for the page.

/** Whether values are set to the right, as numbers are. */
export const isNumeric = (type: string) => /^(u?int|float|decimal|date|time|duration)/.test(type);

/** Whether a column is drawn by its numbers. */
export const isDrawn = (type: string) => isNumeric(type) && !type.startsWith("decimal256");

/** Whether others are drawn over it: points in time. */
export const isTime = (type: string) => /^(timestamp|date)/.test(type);

/** The time zone of a column of times. */
export const zoneOf = (type: string) => /^timestamp\[\w+, ([^\]]+)\]/.exec(type)?.[1];

/** A time in UTC, such as `2024-05-17 09:30:00.25Z`, as the clocks of a zone show it; nothing where the browser does not know. */
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
