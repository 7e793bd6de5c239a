package dev.arrowwood.types;

import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * A type of Arrow's columnar format. {@code toString} returns the name that {@link dev.arrowwood.Schema#parse} reads,
 * such as {@code timestamp[us, UTC]}.
 *
 * <pre>{@code
 * switch (field.type()) {
 *     case Type.Timestamp(var unit, var zone) -> ...
 *     case Type.Dictionary d -> ...
 *     default -> ...
 * }
 * }</pre>
 */
public sealed interface Type {
    /** A unit of time. */
    enum Unit {
        /** Seconds. */
        SECOND("s", 1),
        /** Milliseconds. */
        MILLISECOND("ms", 1_000),
        /** Microseconds. */
        MICROSECOND("us", 1_000_000),
        /** Nanoseconds. */
        NANOSECOND("ns", 1_000_000_000);

        private final String symbol;
        private final long perSecond;

        Unit(String symbol, long perSecond) {
            this.symbol = symbol;
            this.perSecond = perSecond;
        }

        /**
         * Returns the number of units in a second.
         *
         * @return 1 to 1,000,000,000
         */
        public long perSecond() {
            return perSecond;
        }

        /** Returns {@code s}, {@code ms}, {@code us} or {@code ns}. */
        @Override
        public String toString() {
            return symbol;
        }
    }

    /** The parts of intervals. */
    enum IntervalUnit {
        /** Months. */
        YEAR_MONTH,
        /** Days and milliseconds. */
        DAY_TIME,
        /** Months, days and nanoseconds. */
        MONTH_DAY_NANO;

        /** Returns {@code month_day_nano} and the like. */
        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /** The memory layout of text and bytes. */
    enum Layout {
        /** Offsets of 32 bits. */
        NORMAL,
        /** Offsets of 64 bits. */
        LARGE,
        /** Views of 16 bytes. */
        VIEW
    }

    /** The memory layout of lists. */
    enum ListLayout {
        /** Offsets of 32 bits. */
        NORMAL("list"),
        /** Offsets of 64 bits. */
        LARGE("large_list"),
        /** Offsets and sizes of 32 bits. */
        VIEW("list_view"),
        /** Offsets and sizes of 64 bits. */
        LARGE_VIEW("large_list_view");

        private final String typeName;

        ListLayout(String typeName) {
            this.typeName = typeName;
        }
    }

    /** A type whose only value is null. */
    record Null() implements Type {
        @Override
        public String toString() {
            return "null";
        }
    }

    /** True or false. */
    record Bool() implements Type {
        @Override
        public String toString() {
            return "bool";
        }
    }

    /**
     * An integer.
     *
     * @param bits 8, 16, 32 or 64
     * @param signed whether it has a sign
     */
    record Int(int bits, boolean signed) implements Type {
        @Override
        public String toString() {
            return (signed ? "int" : "uint") + bits;
        }
    }

    /**
     * A floating-point number.
     *
     * @param bits 16, 32 or 64
     */
    record Floating(int bits) implements Type {
        @Override
        public String toString() {
            return "float" + bits;
        }
    }

    /**
     * A decimal number.
     *
     * @param bits 32, 64, 128 or 256
     * @param precision the maximum number of digits
     * @param scale the number of digits after the point
     */
    record Decimal(int bits, int precision, int scale) implements Type {
        @Override
        public String toString() {
            return "decimal" + bits + "(" + precision + ", " + scale + ")";
        }
    }

    /**
     * Text in UTF-8.
     *
     * @param layout how it is laid out
     */
    record Text(Layout layout) implements Type {
        @Override
        public String toString() {
            return nameOf(layout, "utf8");
        }
    }

    /**
     * Bytes.
     *
     * @param layout how they are laid out
     */
    record Binary(Layout layout) implements Type {
        @Override
        public String toString() {
            return nameOf(layout, "binary");
        }
    }

    /**
     * Bytes, the same number for each value.
     *
     * @param width the number of bytes
     */
    record FixedBinary(int width) implements Type {
        @Override
        public String toString() {
            return "fixed_size_binary[" + width + "]";
        }
    }

    /**
     * A day.
     *
     * @param bits 32: days since 1970-01-01; 64: milliseconds
     */
    record Date(int bits) implements Type {
        @Override
        public String toString() {
            return "date" + bits;
        }
    }

    /**
     * A time of day.
     *
     * @param unit its unit; seconds and milliseconds have 32 bits, the others 64
     */
    record Time(Unit unit) implements Type {
        /**
         * Returns the size of a value.
         *
         * @return 32 or 64 bits
         */
        public int bits() {
            return switch (unit) {
                case SECOND, MILLISECOND -> 32;
                case MICROSECOND, NANOSECOND -> 64;
            };
        }

        @Override
        public String toString() {
            return "time" + bits() + "[" + unit + "]";
        }
    }

    /**
     * A point in time.
     *
     * @param unit its unit, since 1970-01-01 00:00:00
     * @param zone its time zone; empty for local times of an unknown zone
     */
    record Timestamp(Unit unit, Optional<String> zone) implements Type {
        @Override
        public String toString() {
            return "timestamp[" + unit + zone.map(name -> ", " + name).orElse("") + "]";
        }
    }

    /**
     * A length of time.
     *
     * @param unit its unit
     */
    record Duration(Unit unit) implements Type {
        @Override
        public String toString() {
            return "duration[" + unit + "]";
        }
    }

    /**
     * A length of time by the calendar.
     *
     * @param unit its parts
     */
    record Interval(IntervalUnit unit) implements Type {
        @Override
        public String toString() {
            return "interval[" + unit + "]";
        }
    }

    /**
     * Lists of any length.
     *
     * @param item their items
     * @param layout how they are laid out
     */
    record ListOf(Field item, ListLayout layout) implements Type {
        @Override
        public String toString() {
            return layout.typeName + "<" + inner(item) + ">";
        }
    }

    /**
     * Lists of one length.
     *
     * @param item their items
     * @param size the number of items
     */
    record FixedList(Field item, int size) implements Type {
        @Override
        public String toString() {
            return "fixed_size_list<" + inner(item) + ">[" + size + "]";
        }
    }

    /**
     * Members with names.
     *
     * @param members the members
     */
    record Struct(List<Field> members) implements Type {
        @Override
        public String toString() {
            return "struct<" + joined(members) + ">";
        }
    }

    /**
     * Keys with values.
     *
     * @param key the keys
     * @param value the values
     * @param keysSorted whether the keys of each value are sorted
     */
    record MapOf(Field key, Field value, boolean keysSorted) implements Type {
        @Override
        public String toString() {
            return "map<" + inner(key) + ", " + inner(value) + ">";
        }
    }

    /**
     * One of several members.
     *
     * @param dense true if each member has only its own values, false if each has one for every row
     * @param members the members
     * @param ids their type ids
     */
    record Union(boolean dense, List<Field> members, List<Integer> ids) implements Type {
        @Override
        public String toString() {
            return (dense ? "dense" : "sparse") + "_union<" + joined(members) + ">";
        }
    }

    /**
     * Keys into a dictionary of values.
     *
     * @param keys the type of the keys, an integer
     * @param values the type of the values
     * @param ordered whether the keys are in the order of their values
     */
    record Dictionary(Type keys, Type values, boolean ordered) implements Type {
        @Override
        public String toString() {
            return "dictionary<" + keys + ", " + values + ">";
        }
    }

    /**
     * Runs of equal values.
     *
     * @param runEnds the type of the ends of runs, an integer
     * @param values the values
     */
    record RunEndEncoded(Type runEnds, Field values) implements Type {
        @Override
        public String toString() {
            return "run_end_encoded<" + runEnds + ", " + inner(values) + ">";
        }
    }

    /** Text with offsets of 32 bits. */
    Type UTF8 = new Text(Layout.NORMAL);
    /** Signed integers of 64 bits. */
    Type INT64 = new Int(64, true);
    /** Signed integers of 32 bits. */
    Type INT32 = new Int(32, true);
    /** Floating-point numbers of 64 bits. */
    Type FLOAT64 = new Floating(64);
    /** Floating-point numbers of 32 bits. */
    Type FLOAT32 = new Floating(32);

    /** Returns the name of a type of text or bytes in a layout. */
    private static String nameOf(Layout layout, String name) {
        return switch (layout) {
            case NORMAL -> name;
            case LARGE -> "large_" + name;
            case VIEW -> name + "_view";
        };
    }

    /** Returns a nested type, which toString shows without the field's name. */
    private static String inner(Field field) {
        return field.type() + (field.nullable() ? "" : " not null");
    }

    private static String joined(List<Field> fields) {
        return fields.stream().map(Field::toString).collect(Collectors.joining(", "));
    }
}
