package dev.arrowwood.internal;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.types.Type;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.Optional;

/** Checks times of {@code java.time} against the types of columns, and compares them exactly. */
public final class TimeComparison {
    private static final BigInteger NANOS_PER_SECOND = BigInteger.valueOf(1_000_000_000);
    /** A count that equals no value, as it exceeds 64 bits. */
    private static final BigInteger EQUAL_TO_NONE = BigInteger.ONE.shiftLeft(100);

    private TimeComparison() {}

    /** The count to compare with for a time between two counts of a column's unit. */
    public enum Side {
        /** The count before the time, for {@code <=} and {@code >}. */
        BELOW,
        /** The count after the time, for {@code <} and {@code >=}. */
        ABOVE,
        /** A count that equals no value, for {@code ==} and {@code !=}. */
        NEITHER
    }

    /** Refuses a time with a zone for a column without one, and the reverse. */
    static void checkZone(Object object, Type type) {
        if (type instanceof Type.Timestamp(var unit, Optional<String> zone)) {
            if (zone.isPresent() && (object instanceof LocalDateTime || object instanceof LocalDate)) {
                String example = object instanceof LocalDate ? "value.atStartOfDay(zone)" : "value.atZone(zone)";
                throw mismatch(
                        object,
                        type,
                        "the column has a time zone: give an Instant, or the value's own zone, as by " + example);
            }
            if (zone.isEmpty() && isZoned(object)) {
                throw needsNoZone(object, type);
            }
        }
    }

    /** Refuses values that can't be compared with a column of times, including wrong zones. */
    static void checkComparable(Object object, Type type) {
        checkZone(object, type);
        boolean isTime = switch (type) {
            case Type.Timestamp timestamp -> true;
            case Type.Date date -> true;
            case Type.Time time -> true;
            case Type.Duration duration -> true;
            case null, default -> false;
        };
        if (isTime && (object instanceof CharSequence || object instanceof Enum<?>)) {
            throw mismatch(
                    object,
                    type,
                    "compare it with a time instead of text, as by Instant.parse, LocalDateTime.parse and "
                            + "the like");
        }
        if (type instanceof Type.Date && isZoned(object)) {
            throw needsNoZone(object, type);
        }
    }

    private static boolean isZoned(Object object) {
        return object instanceof Instant || object instanceof ZonedDateTime || object instanceof OffsetDateTime;
    }

    /** Returns the failure for a time with a zone and a column without one. */
    private static ArrowwoodException.InvalidArgument needsNoZone(Object object, Type type) {
        return mismatch(
                object,
                type,
                "the column has no time zone: give a LocalDateTime in the zone that the column is meant "
                        + "in, as by LocalDateTime.ofInstant(instant, zone)");
    }

    private static ArrowwoodException.InvalidArgument mismatch(Object object, Type type, String advice) {
        return new ArrowwoodException.InvalidArgument(
                object.getClass().getSimpleName() + " " + object + " for a column of " + type + "; " + advice);
    }

    /** Counts a time in the unit of a column of times; returns null if the column doesn't hold times of its kind. */
    static BigInteger count(Object object, Type type, Side side) {
        return switch (type) {
            case Type.Timestamp(Type.Unit unit, var zone) -> count(sinceEpoch(object), unit, side);
            case Type.Time(Type.Unit unit)
            when object instanceof LocalTime time -> count(Duration.ofNanos(time.toNanoOfDay()), unit, side);
            case Type.Duration(Type.Unit unit) when object instanceof Duration duration -> count(duration, unit, side);
            case null, default -> null;
        };
    }

    private static Duration sinceEpoch(Object object) {
        Instant instant = switch (object) {
            case Instant time -> time;
            case ZonedDateTime time -> time.toInstant();
            case OffsetDateTime time -> time.toInstant();
            case LocalDateTime time -> time.toInstant(ZoneOffset.UTC);
            case null, default -> null;
        };
        return instant == null ? null : Duration.ofSeconds(instant.getEpochSecond(), instant.getNano());
    }

    private static BigInteger count(Duration duration, Type.Unit unit, Side side) {
        if (duration == null) {
            return null;
        }
        BigInteger nanos = BigInteger.valueOf(duration.getSeconds())
                .multiply(NANOS_PER_SECOND)
                .add(BigInteger.valueOf(duration.getNano()));
        BigInteger nanosPerUnit = NANOS_PER_SECOND.divide(BigInteger.valueOf(unit.perSecond()));
        BigInteger[] quotientAndRemainder = nanos.divideAndRemainder(nanosPerUnit);
        BigInteger quotient = quotientAndRemainder[0];
        int remainderSign = quotientAndRemainder[1].signum();
        if (remainderSign == 0) {
            return quotient;
        }
        BigInteger floor = remainderSign < 0 ? quotient.subtract(BigInteger.ONE) : quotient;
        return switch (side) {
            case BELOW -> floor;
            case ABOVE -> floor.add(BigInteger.ONE);
            case NEITHER -> EQUAL_TO_NONE;
        };
    }
}
