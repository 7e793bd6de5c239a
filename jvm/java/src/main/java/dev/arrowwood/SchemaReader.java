package dev.arrowwood;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Reads {@code struct ArrowSchema} of Arrow's C data interface. */
final class SchemaReader {
    static final long SIZE = 72;
    static final long RELEASE = 56;
    private static final long NAME = 8;
    private static final long METADATA = 16;
    private static final long FLAGS = 24;
    private static final long CHILD_COUNT = 32;
    private static final long CHILDREN = 40;
    private static final long DICTIONARY = 48;

    private static final long ORDERED = 1;
    private static final long NULLABLE = 2;
    private static final long KEYS_SORTED = 4;

    private SchemaReader() {}

    /** Returns the columns, which are the children of a struct type. */
    static List<Field> columns(MemorySegment struct) {
        return children(struct);
    }

    private static List<Field> children(MemorySegment struct) {
        long count = struct.get(JAVA_LONG, CHILD_COUNT);
        List<Field> fields = new ArrayList<>();
        MemorySegment pointers = struct.get(ADDRESS, CHILDREN).reinterpret(count * 8);
        for (long i = 0; i < count; i++) {
            fields.add(field(pointers.getAtIndex(ADDRESS, i).reinterpret(SIZE)));
        }
        return List.copyOf(fields);
    }

    private static Field field(MemorySegment struct) {
        MemorySegment name = struct.get(ADDRESS, NAME);
        boolean nullable = (struct.get(JAVA_LONG, FLAGS) & NULLABLE) != 0;
        return new Field(
                name.address() == 0 ? "" : Native.string(name),
                type(struct),
                nullable,
                metadata(struct.get(ADDRESS, METADATA)));
    }

    /** Reads pairs of texts; an unaligned length precedes each text. */
    private static Map<String, String> metadata(MemorySegment pointer) {
        Map<String, String> pairs = new HashMap<>();
        if (pointer.address() != 0) {
            MemorySegment bytes = pointer.reinterpret(Long.MAX_VALUE);
            long offset = 4;
            for (int remaining = bytes.get(JAVA_INT_UNALIGNED, 0); remaining > 0; remaining--) {
                String[] pair = new String[2];
                for (int i = 0; i < 2; i++) {
                    int length = bytes.get(JAVA_INT_UNALIGNED, offset);
                    byte[] text = bytes.asSlice(offset + 4, length).toArray(ValueLayout.JAVA_BYTE);
                    pair[i] = new String(text, StandardCharsets.UTF_8);
                    offset += 4 + length;
                }
                pairs.put(pair[0], pair[1]);
            }
        }
        return pairs;
    }

    private static Type type(MemorySegment struct) {
        String format = Native.string(struct.get(ADDRESS, 0));
        MemorySegment dictionary = struct.get(ADDRESS, DICTIONARY);
        if (dictionary.address() != 0) {
            boolean ordered = (struct.get(JAVA_LONG, FLAGS) & ORDERED) != 0;
            return new Type.Dictionary(plain(format), type(dictionary.reinterpret(SIZE)), ordered);
        }
        return format.startsWith("+") ? nested(format, struct) : plain(format);
    }

    private static Type nested(String format, MemorySegment struct) {
        List<Field> children = children(struct);
        boolean keysSorted = (struct.get(JAVA_LONG, FLAGS) & KEYS_SORTED) != 0;
        String[] parts = format.split(":", 2);
        return switch (parts[0]) {
            case "+l" -> new Type.ListOf(children.get(0), Type.ListLayout.NORMAL);
            case "+L" -> new Type.ListOf(children.get(0), Type.ListLayout.LARGE);
            case "+vl" -> new Type.ListOf(children.get(0), Type.ListLayout.VIEW);
            case "+vL" -> new Type.ListOf(children.get(0), Type.ListLayout.LARGE_VIEW);
            case "+w" -> new Type.FixedList(children.get(0), Integer.parseInt(parts[1]));
            case "+s" -> new Type.Struct(children);
            case "+m" -> map(children.get(0), keysSorted);
            case "+ud" -> new Type.Union(true, children, ids(parts[1]));
            case "+us" -> new Type.Union(false, children, ids(parts[1]));
            case "+r" -> new Type.RunEndEncoded(children.get(0).type(), children.get(1));
            default -> throw unknown(format);
        };
    }

    private static Type map(Field entries, boolean keysSorted) {
        if (entries.type() instanceof Type.Struct(List<Field> pair) && pair.size() == 2) {
            return new Type.MapOf(pair.get(0), pair.get(1), keysSorted);
        }
        throw unknown("+m");
    }

    private static List<Integer> ids(String list) {
        return list.isEmpty()
                ? List.of()
                : Arrays.stream(list.split(",")).map(Integer::valueOf).toList();
    }

    private static Type plain(String format) {
        return switch (format) {
            case "n" -> new Type.Null();
            case "b" -> new Type.Bool();
            case "c" -> new Type.Int(8, true);
            case "C" -> new Type.Int(8, false);
            case "s" -> new Type.Int(16, true);
            case "S" -> new Type.Int(16, false);
            case "i" -> new Type.Int(32, true);
            case "I" -> new Type.Int(32, false);
            case "l" -> new Type.Int(64, true);
            case "L" -> new Type.Int(64, false);
            case "e" -> new Type.Floating(16);
            case "f" -> new Type.Floating(32);
            case "g" -> new Type.Floating(64);
            case "u" -> new Type.Text(Type.Layout.NORMAL);
            case "U" -> new Type.Text(Type.Layout.LARGE);
            case "vu" -> new Type.Text(Type.Layout.VIEW);
            case "z" -> new Type.Binary(Type.Layout.NORMAL);
            case "Z" -> new Type.Binary(Type.Layout.LARGE);
            case "vz" -> new Type.Binary(Type.Layout.VIEW);
            case "tdD" -> new Type.Date(32);
            case "tdm" -> new Type.Date(64);
            case "tiM" -> new Type.Interval(Type.IntervalUnit.YEAR_MONTH);
            case "tiD" -> new Type.Interval(Type.IntervalUnit.DAY_TIME);
            case "tin" -> new Type.Interval(Type.IntervalUnit.MONTH_DAY_NANO);
            default -> parameterised(format);
        };
    }

    private static Type parameterised(String format) {
        String[] parts = format.split(":", 2);
        return switch (parts[0]) {
            case "w" -> new Type.FixedBinary(Integer.parseInt(parts[1]));
            case "d" -> decimal(parts[1].split(","));
            case "tss", "tsm", "tsu", "tsn" ->
                new Type.Timestamp(unit(format), parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]));
            case "tts", "ttm", "ttu", "ttn" -> new Type.Time(unit(format));
            case "tDs", "tDm", "tDu", "tDn" -> new Type.Duration(unit(format));
            default -> throw unknown(format);
        };
    }

    private static Type decimal(String[] numbers) {
        int bits = numbers.length > 2 ? Integer.parseInt(numbers[2]) : 128;
        return new Type.Decimal(bits, Integer.parseInt(numbers[0]), Integer.parseInt(numbers[1]));
    }

    private static Type.Unit unit(String format) {
        return switch (format.charAt(2)) {
            case 's' -> Type.Unit.SECOND;
            case 'm' -> Type.Unit.MILLISECOND;
            case 'u' -> Type.Unit.MICROSECOND;
            default -> Type.Unit.NANOSECOND;
        };
    }

    private static ArrowwoodException.Unsupported unknown(String format) {
        return new ArrowwoodException.Unsupported("a type that this version doesn't know: '" + format + "'");
    }
}
