package dev.arrowwood.types;

/**
 * A length of time by the calendar.
 *
 * @param months months
 * @param days days
 * @param nanoseconds nanoseconds
 */
public record Interval(int months, int days, long nanoseconds) {}
