package dev.arrowwood.internal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.ArrowwoodException.Code;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Type;
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
public final class SchemaReader {
    /** {@code struct ArrowSchema}. */
    public static final Struct STRUCT = new Struct(
            ADDRESS.withName("format"),
            ADDRESS.withName("name"),
            ADDRESS.withName("metadata"),
            JAVA_LONG.withName("flags"),
            JAVA_LONG.withName("n_children"),
            ADDRESS.withName("children"),
            ADDRESS.withName("dictionary"),
            ADDRESS.withName("release"),
            ADDRESS.withName("private_data"));

    // Bits of the flags: ARROW_FLAG_DICTIONARY_ORDERED and so on.
    private static final long DICTIONARY_ORDERED = 1;
    private static final long NULLABLE = 2;
    private static final long MAP_KEYS_SORTED = 4;

    /** The width of a decimal whose format is precision and scale only. */
    private static final int DEFAULT_DECIMAL_BITS = 128;

    private SchemaReader() {}

    /** Returns the columns, which are the children of a struct type. */
    public static List<Field> columns(MemorySegment struct) {
        return children(struct);
    }

    private static List<Field> children(MemorySegment struct) {
        long count = STRUCT.getLong(struct, "n_children");
        List<Field> fields = new ArrayList<>();
        MemorySegment pointers = STRUCT.getAddress(struct, "children").reinterpret(count * ADDRESS.byteSize());
        for (long i = 0; i < count; i++) {
            fields.add(field(pointers.getAtIndex(ADDRESS, i).reinterpret(STRUCT.size())));
        }
        return List.copyOf(fields);
    }

    private static Field field(MemorySegment struct) {
        MemorySegment name = STRUCT.getAddress(struct, "name");
        return new Field(
                name.address() == 0 ? "" : Native.string(name),
                type(struct),
                hasFlag(struct, NULLABLE),
                metadata(STRUCT.getAddress(struct, "metadata")));
    }

    private static boolean hasFlag(MemorySegment struct, long flag) {
        return (STRUCT.getLong(struct, "flags") & flag) != 0;
    }

    /** Reads pairs of key and value: their count, then each text after its length, all unaligned. */
    private static Map<String, String> metadata(MemorySegment pointer) {
        Map<String, String> pairs = new HashMap<>();
        if (pointer.address() != 0) {
            MemorySegment bytes = pointer.reinterpret(Long.MAX_VALUE);
            long offset = Integer.BYTES;
            for (int remaining = bytes.get(JAVA_INT_UNALIGNED, 0); remaining > 0; remaining--) {
                MemorySegment key = textAt(bytes, offset);
                offset += Integer.BYTES + key.byteSize();
                MemorySegment value = textAt(bytes, offset);
                offset += Integer.BYTES + value.byteSize();
                pairs.put(decode(key), decode(value));
            }
        }
        return pairs;
    }

    /** Returns the bytes of a text whose length is at an offset. */
    private static MemorySegment textAt(MemorySegment bytes, long offset) {
        return bytes.asSlice(offset + Integer.BYTES, bytes.get(JAVA_INT_UNALIGNED, offset));
    }

    private static String decode(MemorySegment text) {
        return new String(text.toArray(ValueLayout.JAVA_BYTE), StandardCharsets.UTF_8);
    }

    private static Type type(MemorySegment struct) {
        String format = Native.string(STRUCT.getAddress(struct, "format"));
        MemorySegment dictionary = STRUCT.getAddress(struct, "dictionary");
        if (dictionary.address() != 0) {
            Type values = type(dictionary.reinterpret(STRUCT.size()));
            return new Type.Dictionary(plain(format), values, hasFlag(struct, DICTIONARY_ORDERED));
        }
        return format.startsWith("+") ? nested(format, struct) : plain(format);
    }

    private static Type nested(String format, MemorySegment struct) {
        List<Field> children = children(struct);
        String[] parts = format.split(":", 2);
        return switch (parts[0]) {
            case "+l" -> new Type.ListOf(children.get(0), Type.ListLayout.NORMAL);
            case "+L" -> new Type.ListOf(children.get(0), Type.ListLayout.LARGE);
            case "+vl" -> new Type.ListOf(children.get(0), Type.ListLayout.VIEW);
            case "+vL" -> new Type.ListOf(children.get(0), Type.ListLayout.LARGE_VIEW);
            case "+w" -> new Type.FixedList(children.get(0), Integer.parseInt(parts[1]));
            case "+s" -> new Type.Struct(children);
            case "+m" -> map(children.get(0), hasFlag(struct, MAP_KEYS_SORTED));
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

    /** Returns a type without children. */
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

    /** Returns a type whose format has parameters behind a colon, such as {@code tsu:UTC}. */
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
        int precision = Integer.parseInt(numbers[0]);
        int scale = Integer.parseInt(numbers[1]);
        int bits = numbers.length > 2 ? Integer.parseInt(numbers[2]) : DEFAULT_DECIMAL_BITS;
        return new Type.Decimal(bits, precision, scale);
    }

    /** Returns the unit that the third letter of a time's format stands for. */
    private static Type.Unit unit(String format) {
        return switch (format.charAt(2)) {
            case 's' -> Type.Unit.SECOND;
            case 'm' -> Type.Unit.MILLISECOND;
            case 'u' -> Type.Unit.MICROSECOND;
            default -> Type.Unit.NANOSECOND;
        };
    }

    private static RuntimeException unknown(String format) {
        return ArrowwoodException.of(Code.UNSUPPORTED, 0, "a type that this version doesn't know: '" + format + "'");
    }
}
