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
import java.lang.foreign.MemorySegment;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Reads the memory of chunks by hand, written from the Arrow Columnar Format: a twin of what rows show. */
final class Decoder {
    private Decoder() {}

    static JsonElement value(Chunk chunk, Type type, long row) {
        if (!chunk.isValid(row) || type instanceof Type.Null) {
            return JsonNull.INSTANCE;
        }
        MemorySegment values = chunk.values();
        return switch (type) {
            case Type.Null nothing -> JsonNull.INSTANCE;
            case Type.Bool bool -> {
                long bit = row + chunk.valuesBit();
                yield new JsonPrimitive((values.get(JAVA_BYTE, bit / 8) >> bit % 8 & 1) != 0);
            }
            case Type.Int(int bits, boolean signed) ->
                new JsonPrimitive(integer(values, bits, signed, row).toString());
            case Type.Floating(int bits) ->
                Spelled.number(
                        switch (bits) {
                            case 16 -> Float.float16ToFloat(values.getAtIndex(JAVA_SHORT_UNALIGNED, row));
                            case 32 -> Float.intBitsToFloat(values.getAtIndex(JAVA_INT_UNALIGNED, row));
                            default -> Double.longBitsToDouble(values.getAtIndex(JAVA_LONG_UNALIGNED, row));
                        });
            case Type.Decimal(int bits, int precision, int scale) ->
                new JsonPrimitive(integer(values, bits, true, row) + "e-" + scale);
            case Type.Text(Type.Layout layout) ->
                new JsonPrimitive(new String(bytes(chunk, layout, row), StandardCharsets.UTF_8));
            case Type.Binary(Type.Layout layout) -> Spelled.bytes(bytes(chunk, layout, row));
            case Type.FixedBinary(int width) ->
                Spelled.bytes(values.asSlice(row * width, width).toArray(JAVA_BYTE));
            case Type.Date(int bits) ->
                new JsonPrimitive("date "
                        + (bits == 32
                                ? integer(values, 32, true, row).longValue()
                                : Math.floorDiv(integer(values, 64, true, row).longValue(), 86_400_000L)));
            case Type.Time(Type.Unit unit) ->
                new JsonPrimitive("time " + integer(values, unit.ordinal() < 2 ? 32 : 64, true, row) + unit);
            case Type.Timestamp(Type.Unit unit, var zone) ->
                new JsonPrimitive("timestamp " + integer(values, 64, true, row) + unit
                        + zone.map(name -> " " + name).orElse(""));
            case Type.Duration(Type.Unit unit) ->
                new JsonPrimitive("duration " + integer(values, 64, true, row) + unit);
            case Type.Interval(Type.IntervalUnit unit) -> interval(values, unit, row);
            case Type.ListOf(Field item, Type.ListLayout layout) -> list(chunk, item, layout, row);
            case Type.FixedList(Field item, int size) -> items(chunk, item.type(), row * size, size);
            case Type.Struct(List<Field> members) -> {
                JsonObject object = new JsonObject();
                for (int i = 0; i < members.size(); i++) {
                    object.add(
                            members.get(i).name(),
                            value(chunk.children().get(i), members.get(i).type(), row));
                }
                yield object;
            }
            case Type.MapOf map -> {
                long from = chunk.offsets().getAtIndex(JAVA_INT_UNALIGNED, row);
                long to = chunk.offsets().getAtIndex(JAVA_INT_UNALIGNED, row + 1);
                JsonArray pairs = new JsonArray();
                for (long i = from; i < to; i++) {
                    List<Chunk> pair = chunk.children().get(0).children();
                    JsonArray spelled = new JsonArray();
                    spelled.add(value(pair.get(0), map.key().type(), i));
                    spelled.add(value(pair.get(1), map.value().type(), i));
                    pairs.add(spelled);
                }
                yield pairs;
            }
            case Type.Union(boolean dense, List<Field> members, List<Integer> ids) -> {
                int member = ids.indexOf((int) values.get(JAVA_BYTE, row));
                long place = dense ? chunk.offsets().getAtIndex(JAVA_INT_UNALIGNED, row) : row;
                Field field = members.get(member);
                yield Spelled.object(field.name(), value(chunk.children().get(member), field.type(), place));
            }
            case Type.Dictionary(Type.Int(int bits, boolean signed), Type of, boolean ordered) ->
                value(
                        chunk.dictionary().orElseThrow(),
                        of,
                        integer(values, bits, signed, row).longValueExact());
            case Type.Dictionary other -> throw new AssertionError(other);
            case Type.RunEndEncoded(Type runEnds, Field of) -> {
                Chunk ends = chunk.children().get(0);
                int bits = ((Type.Int) runEnds).bits();
                long run = 0;
                while (integer(ends.values(), bits, true, run).longValue() <= row + chunk.runOffset()) {
                    run++;
                }
                yield value(chunk.children().get(1), of.type(), run);
            }
        };
    }

    /** Little-endian, of any width. */
    private static BigInteger integer(MemorySegment values, int bits, boolean signed, long row) {
        int width = bits / 8;
        byte[] bytes = new byte[width + 1];
        for (int i = 0; i < width; i++) {
            bytes[width - i] = values.get(JAVA_BYTE, row * width + i);
        }
        bytes[0] = (byte) (signed && bytes[1] < 0 ? -1 : 0);
        return new BigInteger(bytes);
    }

    private static byte[] bytes(Chunk chunk, Type.Layout layout, long row) {
        if (layout != Type.Layout.VIEW) {
            boolean large = layout == Type.Layout.LARGE;
            long from = offset(chunk.offsets(), large, row);
            return chunk.data()
                    .asSlice(from, offset(chunk.offsets(), large, row + 1) - from)
                    .toArray(JAVA_BYTE);
        }
        MemorySegment view = chunk.values().asSlice(16 * row, 16);
        int length = view.get(JAVA_INT_UNALIGNED, 0);
        if (length <= 12) {
            return view.asSlice(4, length).toArray(JAVA_BYTE);
        }
        MemorySegment far = chunk.variadic().get(view.get(JAVA_INT_UNALIGNED, 8));
        return far.asSlice(view.get(JAVA_INT_UNALIGNED, 12), length).toArray(JAVA_BYTE);
    }

    private static long offset(MemorySegment offsets, boolean large, long index) {
        return large ? offsets.getAtIndex(JAVA_LONG_UNALIGNED, index) : offsets.getAtIndex(JAVA_INT_UNALIGNED, index);
    }

    private static JsonElement interval(MemorySegment values, Type.IntervalUnit unit, long row) {
        long[] parts = switch (unit) {
            case YEAR_MONTH -> new long[] {values.getAtIndex(JAVA_INT_UNALIGNED, row), 0, 0};
            case DAY_TIME ->
                new long[] {
                    0,
                    values.getAtIndex(JAVA_INT_UNALIGNED, 2 * row),
                    values.getAtIndex(JAVA_INT_UNALIGNED, 2 * row + 1) * 1_000_000L
                };
            case MONTH_DAY_NANO ->
                new long[] {
                    values.getAtIndex(JAVA_INT_UNALIGNED, 4 * row),
                    values.getAtIndex(JAVA_INT_UNALIGNED, 4 * row + 1),
                    values.getAtIndex(JAVA_LONG_UNALIGNED, 2 * row + 1)
                };
        };
        return new JsonPrimitive("interval " + parts[0] + " " + parts[1] + " " + parts[2]);
    }

    private static JsonElement list(Chunk chunk, Field item, Type.ListLayout layout, long row) {
        boolean large = layout == Type.ListLayout.LARGE || layout == Type.ListLayout.LARGE_VIEW;
        boolean view = layout == Type.ListLayout.VIEW || layout == Type.ListLayout.LARGE_VIEW;
        long from = offset(chunk.offsets(), large, row);
        long size = view ? offset(chunk.sizes(), large, row) : offset(chunk.offsets(), large, row + 1) - from;
        return items(chunk, item.type(), from, size);
    }

    private static JsonElement items(Chunk chunk, Type item, long from, long size) {
        JsonArray items = new JsonArray();
        for (long i = 0; i < size; i++) {
            items.add(value(chunk.children().get(0), item, from + i));
        }
        return items;
    }
}
