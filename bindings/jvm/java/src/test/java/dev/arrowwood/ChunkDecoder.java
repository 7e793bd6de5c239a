package dev.arrowwood;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Type;
import java.lang.foreign.MemorySegment;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Decodes the buffers of chunks to {@link CanonicalJson}.
 *
 * <p>Written from the specification of the Arrow columnar format, and independent of the library's own decoder.
 */
final class ChunkDecoder {
    // A view: its length, then the bytes of a short value, or the prefix, buffer and offset of a long one.
    private static final int VIEW_SIZE = 16;
    private static final int VIEW_LENGTH = 0;
    private static final int VIEW_INLINE_BYTES = 4;
    private static final int VIEW_BUFFER = 8;
    private static final int VIEW_OFFSET = 12;
    private static final int MAX_INLINE_LENGTH = VIEW_SIZE - VIEW_INLINE_BYTES;

    private static final long MILLIS_PER_DAY = 86_400_000L;
    private static final long NANOS_PER_MILLI = 1_000_000L;

    private ChunkDecoder() {}

    /** Decodes a value of a chunk, whose index is from the chunk's first row on. */
    static JsonElement decode(Chunk chunk, Type type, long row) {
        if (!chunk.isValid(row) || type instanceof Type.Null) {
            return JsonNull.INSTANCE;
        }
        MemorySegment values = chunk.values();
        return switch (type) {
            case Type.Null nullType -> JsonNull.INSTANCE;
            case Type.Bool bool -> {
                long bit = row + chunk.valuesBit();
                yield new JsonPrimitive((values.get(JAVA_BYTE, bit / Byte.SIZE) >> bit % Byte.SIZE & 1) != 0);
            }
            case Type.Int(int bits, boolean signed) ->
                new JsonPrimitive(integer(values, bits, signed, row).toString());
            case Type.Floating(int bits) -> CanonicalJson.encodeFloat(floating(values, bits, row));
            case Type.Decimal(int bits, int precision, int scale) ->
                new JsonPrimitive(integer(values, bits, true, row) + "e-" + scale);
            case Type.Text(Type.Layout layout) ->
                new JsonPrimitive(new String(bytes(chunk, layout, row), StandardCharsets.UTF_8));
            case Type.Binary(Type.Layout layout) -> CanonicalJson.encodeBytes(bytes(chunk, layout, row));
            case Type.FixedBinary(int width) ->
                CanonicalJson.encodeBytes(values.asSlice(row * width, width).toArray(JAVA_BYTE));
            case Type.Date(int bits) -> {
                long count = integer(values, bits, true, row).longValue();
                long days = bits == 32 ? count : Math.floorDiv(count, MILLIS_PER_DAY);
                yield new JsonPrimitive("date " + days);
            }
            case Type.Time(Type.Unit unit) -> {
                boolean isTime32 = unit == Type.Unit.SECOND || unit == Type.Unit.MILLISECOND;
                yield new JsonPrimitive("time " + integer(values, isTime32 ? 32 : 64, true, row) + unit);
            }
            case Type.Timestamp(Type.Unit unit, var zone) ->
                new JsonPrimitive("timestamp " + integer(values, 64, true, row) + unit
                        + zone.map(name -> " " + name).orElse(""));
            case Type.Duration(Type.Unit unit) ->
                new JsonPrimitive("duration " + integer(values, 64, true, row) + unit);
            case Type.Interval(Type.IntervalUnit unit) -> new JsonPrimitive("interval " + interval(values, unit, row));
            case Type.ListOf(Field item, Type.ListLayout layout) -> list(chunk, item, layout, row);
            case Type.FixedList(Field item, int size) -> items(chunk, item.type(), row * size, size);
            case Type.Struct(List<Field> members) -> struct(chunk, members, row);
            case Type.MapOf map -> map(chunk, map, row);
            case Type.Union(boolean dense, List<Field> members, List<Integer> typeIds) -> {
                int member = typeIds.indexOf((int) values.get(JAVA_BYTE, row));
                long memberRow = dense ? chunk.offsets().getAtIndex(JAVA_INT_UNALIGNED, row) : row;
                Field field = members.get(member);
                yield CanonicalJson.object(field.name(), decode(chunk.children().get(member), field.type(), memberRow));
            }
            case Type.Dictionary(Type.Int(int bits, boolean signed), Type valueType, boolean ordered) -> {
                long key = integer(values, bits, signed, row).longValueExact();
                yield decode(chunk.dictionary().orElseThrow(), valueType, key);
            }
            case Type.Dictionary dictionary -> throw new AssertionError("keys that aren't integers: " + dictionary);
            case Type.RunEndEncoded(Type runEndType, Field valueField) -> {
                int bits = ((Type.Int) runEndType).bits();
                long run = findRun(chunk.children().get(0), bits, row + chunk.runOffset());
                yield decode(chunk.children().get(1), valueField.type(), run);
            }
        };
    }

    /** Reads a little-endian integer of any width. */
    private static BigInteger integer(MemorySegment values, int bits, boolean signed, long index) {
        int width = bits / Byte.SIZE;
        // Big-endian, with one more byte for the sign.
        byte[] bytes = new byte[width + 1];
        for (int i = 0; i < width; i++) {
            bytes[width - i] = values.get(JAVA_BYTE, index * width + i);
        }
        bytes[0] = (byte) (signed && bytes[1] < 0 ? -1 : 0);
        return new BigInteger(bytes);
    }

    private static double floating(MemorySegment values, int bits, long index) {
        return switch (bits) {
            case 16 -> Float.float16ToFloat(values.getAtIndex(JAVA_SHORT_UNALIGNED, index));
            case 32 -> Float.intBitsToFloat(values.getAtIndex(JAVA_INT_UNALIGNED, index));
            default -> Double.longBitsToDouble(values.getAtIndex(JAVA_LONG_UNALIGNED, index));
        };
    }

    private static byte[] bytes(Chunk chunk, Type.Layout layout, long row) {
        if (layout == Type.Layout.VIEW) {
            return viewBytes(chunk, row);
        }
        boolean isLarge = layout == Type.Layout.LARGE;
        long start = offset(chunk.offsets(), isLarge, row);
        long end = offset(chunk.offsets(), isLarge, row + 1);
        return chunk.data().asSlice(start, end - start).toArray(JAVA_BYTE);
    }

    /** Returns the bytes of a view. */
    private static byte[] viewBytes(Chunk chunk, long row) {
        MemorySegment view = chunk.values().asSlice(VIEW_SIZE * row, VIEW_SIZE);
        int length = view.get(JAVA_INT_UNALIGNED, VIEW_LENGTH);
        if (length <= MAX_INLINE_LENGTH) {
            return view.asSlice(VIEW_INLINE_BYTES, length).toArray(JAVA_BYTE);
        }
        MemorySegment buffer = chunk.variadic().get(view.get(JAVA_INT_UNALIGNED, VIEW_BUFFER));
        return buffer.asSlice(view.get(JAVA_INT_UNALIGNED, VIEW_OFFSET), length).toArray(JAVA_BYTE);
    }

    private static long offset(MemorySegment offsets, boolean isLarge, long index) {
        return isLarge ? offsets.getAtIndex(JAVA_LONG_UNALIGNED, index) : offsets.getAtIndex(JAVA_INT_UNALIGNED, index);
    }

    /** Reads an interval: 4 bytes of months; 8 of days and milliseconds; 16 of months, days and nanoseconds. */
    private static String interval(MemorySegment values, Type.IntervalUnit unit, long row) {
        return switch (unit) {
            case YEAR_MONTH -> intervalText(values.getAtIndex(JAVA_INT_UNALIGNED, row), 0, 0);
            case DAY_TIME ->
                intervalText(
                        0,
                        values.getAtIndex(JAVA_INT_UNALIGNED, 2 * row),
                        values.getAtIndex(JAVA_INT_UNALIGNED, 2 * row + 1) * NANOS_PER_MILLI);
            case MONTH_DAY_NANO ->
                intervalText(
                        values.getAtIndex(JAVA_INT_UNALIGNED, 4 * row),
                        values.getAtIndex(JAVA_INT_UNALIGNED, 4 * row + 1),
                        values.getAtIndex(JAVA_LONG_UNALIGNED, 2 * row + 1));
        };
    }

    private static String intervalText(int months, int days, long nanoseconds) {
        return months + " " + days + " " + nanoseconds;
    }

    private static JsonElement list(Chunk chunk, Field item, Type.ListLayout layout, long row) {
        boolean isLarge = layout == Type.ListLayout.LARGE || layout == Type.ListLayout.LARGE_VIEW;
        boolean isView = layout == Type.ListLayout.VIEW || layout == Type.ListLayout.LARGE_VIEW;
        long start = offset(chunk.offsets(), isLarge, row);
        long size = isView ? offset(chunk.sizes(), isLarge, row) : offset(chunk.offsets(), isLarge, row + 1) - start;
        return items(chunk, item.type(), start, size);
    }

    private static JsonElement items(Chunk chunk, Type itemType, long start, long size) {
        JsonArray items = new JsonArray();
        for (long i = 0; i < size; i++) {
            items.add(decode(chunk.children().get(0), itemType, start + i));
        }
        return items;
    }

    private static JsonElement struct(Chunk chunk, List<Field> members, long row) {
        JsonObject object = new JsonObject();
        for (int i = 0; i < members.size(); i++) {
            Field member = members.get(i);
            object.add(member.name(), decode(chunk.children().get(i), member.type(), row));
        }
        return object;
    }

    private static JsonElement map(Chunk chunk, Type.MapOf type, long row) {
        long start = offset(chunk.offsets(), false, row);
        long end = offset(chunk.offsets(), false, row + 1);
        JsonArray pairs = new JsonArray();
        for (long i = start; i < end; i++) {
            List<Chunk> entry = chunk.children().get(0).children();
            JsonArray pair = new JsonArray();
            pair.add(decode(entry.get(0), type.key().type(), i));
            pair.add(decode(entry.get(1), type.value().type(), i));
            pairs.add(pair);
        }
        return pairs;
    }

    /** Returns the first run that ends after a row. */
    private static long findRun(Chunk runEnds, int bits, long row) {
        long run = 0;
        while (integer(runEnds.values(), bits, true, run).longValue() <= row) {
            run++;
        }
        return run;
    }
}
