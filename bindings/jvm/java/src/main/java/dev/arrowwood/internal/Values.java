package dev.arrowwood.internal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.ArrowwoodException.Code;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Interval;
import dev.arrowwood.types.Type;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.UUID;

/**
 * Converts an {@code arrowwood_value} to a Java object and back.
 *
 * <p>The {@code kind} of a value says which member of the union {@code as} holds it. Most kinds need one word; text and
 * bytes are a pointer in it, with their {@code length} beside. {@code unit} is the unit of times, or the scale of a
 * decimal.
 */
public final class Values {
    /** The number of 64-bit words in the union, which the digits of a decimal fill. */
    private static final int WORD_COUNT = 4;

    /** {@code arrowwood_value}. */
    public static final Struct VALUE = new Struct(
            JAVA_INT.withName("kind"),
            JAVA_INT.withName("unit"),
            JAVA_LONG.withName("length"),
            MemoryLayout.unionLayout(
                            MemoryLayout.sequenceLayout(WORD_COUNT, JAVA_LONG).withName("words"),
                            new Struct(JAVA_LONG.withName("count"), ADDRESS.withName("zone"))
                                    .layout()
                                    .withName("timestamp"),
                            new Struct(
                                            JAVA_INT.withName("months"),
                                            JAVA_INT.withName("days"),
                                            JAVA_LONG.withName("nanoseconds"))
                                    .layout()
                                    .withName("interval"))
                    .withName("as"));

    private static final long KIND = VALUE.offset("kind");
    private static final long UNIT = VALUE.offset("unit");
    private static final long LENGTH = VALUE.offset("length");
    /** The first word of the union, which all other members begin with too. */
    private static final long WORD = VALUE.offset("as", "words");

    private static final long SECOND_WORD = WORD + Long.BYTES;
    private static final long ZONE = VALUE.offset("as", "timestamp", "zone");
    private static final long MONTHS = VALUE.offset("as", "interval", "months");
    private static final long DAYS = VALUE.offset("as", "interval", "days");
    private static final long NANOSECONDS = VALUE.offset("as", "interval", "nanoseconds");

    /** The number of words of a value of kind {@link #INT128}. */
    private static final int INT128_WORD_COUNT = 2;

    // Values of enum arrowwood_value_kind.
    static final int NULL = 0;
    static final int BOOL = 1;
    static final int INT64 = 2;
    static final int UINT64 = 3;
    static final int INT128 = 4;
    static final int FLOAT32 = 5;
    static final int FLOAT64 = 6;
    static final int DECIMAL = 7;
    static final int TEXT = 8;
    static final int BYTES = 9;
    static final int UUID_BYTES = 10;
    static final int DATE = 11;
    static final int TIME = 12;
    static final int TIMESTAMP = 13;
    static final int DURATION = 14;
    static final int INTERVAL = 15;
    public static final int LIST = 16;
    public static final int MAP = 17;
    public static final int STRUCT = 18;
    public static final int UNION = 19;

    /** The number of bytes of a value of kind {@link #DECIMAL}. */
    private static final int DECIMAL_SIZE = WORD_COUNT * Long.BYTES;

    /** The number of bytes of a value of kind {@link #UUID_BYTES}. */
    static final int UUID_SIZE = 2 * Long.BYTES;

    private static final long NANOS_PER_SECOND = Type.Unit.NANOSECOND.perSecond();
    private static final int NANOS_PER_MICROSECOND = 1_000;

    /** The zone of all timestamps with a zone that are written: their instants are in UTC. */
    private static final MemorySegment UTC =
            Arena.global().allocateFrom(JAVA_BYTE, "UTC".getBytes(StandardCharsets.UTF_8));

    private Values() {}

    public static int kind(MemorySegment value) {
        return value.get(JAVA_INT, KIND);
    }

    public static long length(MemorySegment value) {
        return value.get(JAVA_LONG, LENGTH);
    }

    /** Copies the bytes of a text, a binary or the name of a union's member; {@code owner} frees the original. */
    static byte[] bytes(Native.Call call, MemorySegment value, Arena owner) throws Throwable {
        return call.bytes(value.get(JAVA_LONG, WORD), length(value), owner);
    }

    public static String text(Native.Call call, MemorySegment value, Arena owner) throws Throwable {
        return new String(bytes(call, value, owner), StandardCharsets.UTF_8);
    }

    /** Reads a value that is not nested; {@code owner} frees its dataset. */
    public static Object read(Native.Call call, MemorySegment value, Arena owner) throws Throwable {
        long word = value.get(JAVA_LONG, WORD);
        return switch (kind(value)) {
            case NULL -> null;
            case BOOL -> word != 0;
            case INT64 -> word;
            case UINT64 -> word >= 0 ? (Object) word : new BigInteger(Long.toUnsignedString(word));
            case INT128 -> narrowed(words(value, INT128_WORD_COUNT));
            case FLOAT32 -> (float) value.get(JAVA_DOUBLE, WORD);
            case FLOAT64 -> value.get(JAVA_DOUBLE, WORD);
            case DECIMAL -> new BigDecimal(words(value, WORD_COUNT), value.get(JAVA_INT, UNIT));
            case TEXT -> text(call, value, owner);
            case BYTES -> bytes(call, value, owner);
            case UUID_BYTES -> uuid(bytes(call, value, owner));
            case DATE, TIME, TIMESTAMP -> time(value, word);
            case DURATION -> duration(word, perSecond(value));
            case INTERVAL ->
                new Interval(value.get(JAVA_INT, MONTHS), value.get(JAVA_INT, DAYS), value.get(JAVA_LONG, NANOSECONDS));
            default -> throw ArrowwoodException.of(Code.INTERNAL, 0, "a value of an unknown kind: " + kind(value));
        };
    }

    /** Reads a time as a class of {@code java.time}, or as its count of units where the class can't represent it. */
    private static Object time(MemorySegment value, long word) {
        try {
            return switch (kind(value)) {
                case DATE -> LocalDate.ofEpochDay(word);
                case TIME -> LocalTime.ofNanoOfDay(Math.multiplyExact(word, NANOS_PER_SECOND / perSecond(value)));
                default -> timestamp(value, word);
            };
        } catch (DateTimeException | ArithmeticException e) {
            return word;
        }
    }

    /** Returns the value of {@code enum arrowwood_unit}. */
    static int code(Type.Unit unit) {
        return switch (unit) {
            case SECOND -> 0;
            case MILLISECOND -> 1;
            case MICROSECOND -> 2;
            case NANOSECOND -> 3;
        };
    }

    /** Returns the unit for a value of {@code enum arrowwood_unit}. */
    static Type.Unit unit(int code) {
        return switch (code) {
            case 0 -> Type.Unit.SECOND;
            case 1 -> Type.Unit.MILLISECOND;
            case 2 -> Type.Unit.MICROSECOND;
            case 3 -> Type.Unit.NANOSECOND;
            default -> throw ArrowwoodException.of(Code.INTERNAL, 0, "a time of an unknown unit: " + code);
        };
    }

    /** Returns the unit of an {@code arrowwood_value} of kind {@link #INTERVAL}. */
    private static int code(Type.IntervalUnit unit) {
        return switch (unit) {
            case YEAR_MONTH -> 0;
            case DAY_TIME -> 1;
            case MONTH_DAY_NANO -> 2;
        };
    }

    private static long perSecond(MemorySegment value) {
        return unit(value.get(JAVA_INT, UNIT)).perSecond();
    }

    private static Object timestamp(MemorySegment value, long count) {
        long perSecond = perSecond(value);
        long seconds = Math.floorDiv(count, perSecond);
        int nanos = (int) (Math.floorMod(count, perSecond) * (NANOS_PER_SECOND / perSecond));
        boolean hasZone = value.get(JAVA_LONG, ZONE) != 0;
        return hasZone
                ? Instant.ofEpochSecond(seconds, nanos)
                : LocalDateTime.ofEpochSecond(seconds, nanos, ZoneOffset.UTC);
    }

    private static Duration duration(long count, long perSecond) {
        long nanos = Math.floorMod(count, perSecond) * (NANOS_PER_SECOND / perSecond);
        return Duration.ofSeconds(Math.floorDiv(count, perSecond), nanos);
    }

    /** Reads a two's complement integer, low word first. */
    private static BigInteger words(MemorySegment value, int count) {
        byte[] bytes = new byte[Long.BYTES * count];
        for (int i = 0; i < bytes.length; i++) {
            bytes[bytes.length - 1 - i] = value.get(JAVA_BYTE, WORD + i);
        }
        return new BigInteger(bytes);
    }

    /** Returns the number as a {@code Long} if it fits. */
    private static Number narrowed(BigInteger number) {
        return number.bitLength() < Long.SIZE ? (Number) number.longValue() : number;
    }

    static UUID uuid(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new UUID(buffer.getLong(), buffer.getLong());
    }

    static byte[] bytes(UUID uuid) {
        return ByteBuffer.allocate(UUID_SIZE)
                .putLong(uuid.getMostSignificantBits())
                .putLong(uuid.getLeastSignificantBits())
                .array();
    }

    /** Copies a value's text or bytes into memory that lives until the call ends. */
    public interface ByteCopier {
        MemorySegment copy(byte[] bytes);
    }

    static void putNull(MemorySegment value) {
        value.set(JAVA_INT, KIND, NULL);
    }

    static void putBool(MemorySegment value, boolean flag) {
        put(value, BOOL, flag ? 1 : 0);
    }

    static void putLong(MemorySegment value, long number) {
        put(value, INT64, number);
    }

    static void putDouble(MemorySegment value, double number) {
        value.set(JAVA_INT, KIND, FLOAT64);
        value.set(JAVA_DOUBLE, WORD, number);
    }

    static void putBytes(MemorySegment value, int kind, byte[] bytes, ByteCopier copier) {
        put(value, kind, copier.copy(bytes).address());
        value.set(JAVA_LONG, LENGTH, bytes.length);
    }

    static void putText(MemorySegment value, String text, ByteCopier copier) {
        putBytes(value, TEXT, utf8(text), copier);
    }

    /** Encodes a text as UTF-8; refuses lone surrogates, which Java would replace with question marks. */
    static byte[] utf8(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        int questionMarks = 0;
        for (byte b : bytes) {
            if (b == '?') {
                questionMarks++;
            }
        }
        // More question marks than in the text replace lone surrogates.
        if (questionMarks > 0
                && questionMarks != text.chars().filter(c -> c == '?').count()) {
            throw new ArrowwoodException.InvalidArgument("the text has half a character, a lone surrogate, at index "
                    + indexOfLoneSurrogate(text) + ", which UTF-8 has no bytes for");
        }
        return bytes;
    }

    /** Returns the index of the first lone surrogate. */
    private static int indexOfLoneSurrogate(String text) {
        int index = 0;
        while (index < text.length() && !isSurrogate(text.codePointAt(index))) {
            index += Character.charCount(text.codePointAt(index));
        }
        return index;
    }

    private static boolean isSurrogate(int codePoint) {
        return codePoint >= Character.MIN_SURROGATE && codePoint <= Character.MAX_SURROGATE;
    }

    /** Writes a point in time in the column's unit; truncates finer parts. */
    static void putTimestamp(MemorySegment value, long seconds, int nanos, Type.Unit unit) {
        long count;
        try {
            count = count(seconds, nanos, unit);
        } catch (ArithmeticException e) {
            throw new ArrowwoodException.InvalidArgument(
                    Instant.ofEpochSecond(seconds, nanos) + " is out of range of a timestamp[" + unit + "]");
        }
        putCount(value, TIMESTAMP, count, unit);
        value.set(JAVA_LONG, ZONE, 0);
    }

    /** Counts units in seconds and nanoseconds; truncates finer parts. Throws if the count overflows 64 bits. */
    private static long count(long seconds, int nanos, Type.Unit unit) {
        long perSecond = unit.perSecond();
        long fraction = nanos / (NANOS_PER_SECOND / perSecond);
        // Counts back from the next second, because the first second of the range would overflow.
        return seconds < 0
                ? Math.addExact(Math.multiplyExact(seconds + 1, perSecond), fraction - perSecond)
                : Math.addExact(Math.multiplyExact(seconds, perSecond), fraction);
    }

    private static void putCount(MemorySegment value, int kind, long count, Type.Unit unit) {
        put(value, kind, count);
        value.set(JAVA_INT, UNIT, code(unit));
    }

    private static void put(MemorySegment value, int kind, long word) {
        value.set(JAVA_INT, KIND, kind);
        value.set(JAVA_LONG, WORD, word);
    }

    /** Writes any Java object as a value of a type, which is null if unknown. */
    public static void write(MemorySegment value, Object object, Type type, ByteCopier copier) {
        switch (object) {
            case null -> putNull(value);
            case Boolean flag -> putBool(value, flag);
            case Double number -> putDouble(value, number);
            case Float number -> putDouble(value, number);
            case Long number -> putLong(value, number);
            case Integer number -> putLong(value, number);
            case Short number -> putLong(value, number);
            case Byte number -> putLong(value, number);
            case CharSequence text -> putText(value, text.toString(), copier);
            case Enum<?> constant -> putText(value, constant.name(), copier);
            case byte[] bytes -> putBytes(value, BYTES, bytes, copier);
            case UUID uuid -> putBytes(value, UUID_BYTES, bytes(uuid), copier);
            case BigInteger number -> putInteger(value, number, type);
            case BigDecimal number -> putDecimal(value, number, type);
            case Optional<?> optional -> write(value, optional.orElse(null), type, copier);
            case OptionalLong optional ->
                write(value, optional.isPresent() ? optional.getAsLong() : null, type, copier);
            case OptionalInt optional -> write(value, optional.isPresent() ? optional.getAsInt() : null, type, copier);
            case OptionalDouble optional ->
                write(value, optional.isPresent() ? optional.getAsDouble() : null, type, copier);
            case Interval interval -> putInterval(value, interval, type);
            default -> writeTime(value, object, valueType(type));
        }
    }

    /** Returns the type of the values, without dictionaries and run-end encoding; null for null. */
    public static Type valueType(Type type) {
        return switch (type) {
            case Type.Dictionary(Type keys, Type values, boolean ordered) -> valueType(values);
            case Type.RunEndEncoded(Type ends, Field values) -> valueType(values.type());
            case null -> null;
            default -> type;
        };
    }

    private static void writeTime(MemorySegment value, Object object, Type type) {
        TimeComparison.checkZone(object, type);
        switch (object) {
            case Instant instant -> putZoned(value, instant, type);
            case ZonedDateTime time -> putZoned(value, time.toInstant(), type);
            case OffsetDateTime time -> putZoned(value, time.toInstant(), type);
            case LocalDateTime time -> putMoment(value, time.toInstant(ZoneOffset.UTC), type);
            case LocalDate date -> put(value, DATE, date.toEpochDay());
            case LocalTime time -> {
                Type.Unit unit = unit(type, time.getNano());
                putCount(value, TIME, time.toNanoOfDay() / (NANOS_PER_SECOND / unit.perSecond()), unit);
            }
            case Duration duration -> putDuration(value, duration, unit(type, duration.getNano()));
            default ->
                throw new ArrowwoodException.InvalidArgument("a value of " + object.getClass()
                        + " can't be stored" + (type == null ? "" : " as " + type) + "; lists, structs and maps are "
                        + "appended as datasets");
        }
    }

    private static void putMoment(MemorySegment value, Instant instant, Type type) {
        int nanos = instant.getNano();
        putTimestamp(value, instant.getEpochSecond(), nanos, unit(type, nanos));
    }

    private static void putZoned(MemorySegment value, Instant instant, Type type) {
        putMoment(value, instant, type);
        value.set(JAVA_LONG, LENGTH, UTC.byteSize());
        value.set(JAVA_LONG, ZONE, UTC.address());
    }

    /**
     * Writes any Java object as a value to compare with values of a type, which is null if unknown. Loses no digits: a
     * time finer than the column's unit becomes the count on one {@code side} of it.
     */
    public static void writeCompared(
            MemorySegment value, Object object, Type columnType, TimeComparison.Side side, ByteCopier copier) {
        Type type = valueType(columnType);
        if (object instanceof Optional<?> optional) {
            writeCompared(value, optional.orElse(null), type, side, copier);
            return;
        }
        TimeComparison.checkComparable(object, type);
        BigInteger count = TimeComparison.count(object, type, side);
        if (count == null) {
            write(value, object, null, copier);
        } else {
            putInt128(value, count);
        }
    }

    /** Writes an integer of at most 128 bits. */
    private static void putInt128(MemorySegment value, BigInteger number) {
        put(value, INT128, number.longValue());
        value.set(JAVA_LONG, SECOND_WORD, number.shiftRight(Long.SIZE).longValue());
    }

    /** Returns a type's unit; if unknown, microseconds, or nanoseconds if microseconds would truncate the time. */
    private static Type.Unit unit(Type type, int nanos) {
        return switch (type) {
            case Type.Timestamp(Type.Unit unit, var zone) -> unit;
            case Type.Time(Type.Unit unit) -> unit;
            case Type.Duration(Type.Unit unit) -> unit;
            case null, default -> nanos % NANOS_PER_MICROSECOND == 0 ? Type.Unit.MICROSECOND : Type.Unit.NANOSECOND;
        };
    }

    private static void putDuration(MemorySegment value, Duration duration, Type.Unit unit) {
        try {
            putCount(value, DURATION, count(duration.getSeconds(), duration.getNano(), unit), unit);
        } catch (ArithmeticException e) {
            throw new ArrowwoodException.InvalidArgument(duration + " is out of range of a duration[" + unit + "]");
        }
    }

    private static void putInterval(MemorySegment value, Interval interval, Type type) {
        value.set(JAVA_INT, KIND, INTERVAL);
        value.set(JAVA_INT, MONTHS, interval.months());
        value.set(JAVA_INT, DAYS, interval.days());
        value.set(JAVA_LONG, NANOSECONDS, interval.nanoseconds());

        Type.IntervalUnit unit = valueType(type) instanceof Type.Interval(Type.IntervalUnit columnUnit)
                ? columnUnit
                : Type.IntervalUnit.MONTH_DAY_NANO;
        value.set(JAVA_INT, UNIT, code(unit));
    }

    private static void putInteger(MemorySegment value, BigInteger number, Type type) {
        if (number.bitLength() < Long.SIZE) {
            putLong(value, number.longValue());
        } else if (number.signum() > 0 && number.bitLength() == Long.SIZE) {
            put(value, UINT64, number.longValue());
        } else {
            putDecimal(value, new BigDecimal(number), type);
        }
    }

    private static void putDecimal(MemorySegment value, BigDecimal number, Type type) {
        BigDecimal scaled = number;
        if (valueType(type) instanceof Type.Decimal(int bits, int precision, int scale)) {
            try {
                scaled = number.setScale(scale);
            } catch (ArithmeticException e) {
                throw new ArrowwoodException.InvalidArgument(number + " has more digits behind the point than " + type);
            }
        }

        byte[] digits = scaled.unscaledValue().toByteArray();
        if (digits.length > DECIMAL_SIZE || scaled.scale() < Byte.MIN_VALUE || scaled.scale() > Byte.MAX_VALUE) {
            throw new ArrowwoodException.InvalidArgument(number + " has more digits than a decimal of 256 bits");
        }

        value.set(JAVA_INT, KIND, DECIMAL);
        value.set(JAVA_INT, UNIT, scaled.scale());
        // The lowest byte first; the sign fills the bytes above the number's own.
        byte sign = (byte) (scaled.signum() < 0 ? -1 : 0);
        for (int i = 0; i < DECIMAL_SIZE; i++) {
            value.set(JAVA_BYTE, WORD + i, i < digits.length ? digits[digits.length - 1 - i] : sign);
        }
    }
}
