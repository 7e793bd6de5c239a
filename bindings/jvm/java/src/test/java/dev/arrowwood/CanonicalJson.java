package dev.arrowwood;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import dev.arrowwood.internal.Fields;
import dev.arrowwood.internal.Internals;
import dev.arrowwood.internal.Values;
import dev.arrowwood.types.Field;
import dev.arrowwood.types.Interval;
import dev.arrowwood.types.Member;
import dev.arrowwood.types.Type;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Encodes values as JSON in the way of {@code examples/samples}, which every language can do without rounding.
 *
 * <p>Integers, decimals and times are strings with all their digits.
 */
final class CanonicalJson {
    private static final BigInteger NANOS_PER_SECOND = BigInteger.valueOf(1_000_000_000);

    private CanonicalJson() {}

    static JsonArray encodeRows(Dataset dataset) {
        JsonArray rows = new JsonArray();
        dataset.stream().forEach(row -> rows.add(encodeRow(row)));
        return rows;
    }

    static JsonArray encodeRow(Row row) {
        JsonArray cells = new JsonArray();
        for (int i = 0; i < row.size(); i++) {
            cells.add(encode(row.get(i), row.fields().get(i).type()));
        }
        return cells;
    }

    /** Encodes a value of a column whose type may be a dictionary or run-end encoded. */
    static JsonElement encode(Object value, Type columnType) {
        Type type = Values.valueType(columnType);
        return switch (value) {
            case null -> JsonNull.INSTANCE;
            case Boolean flag -> new JsonPrimitive(flag);
            case Long count when type instanceof Type.Time(Type.Unit unit) -> new JsonPrimitive("time " + count + unit);
            case Long count
            when type instanceof Type.Timestamp(Type.Unit unit, var zone) ->
                new JsonPrimitive("timestamp " + count + unit
                        + zone.map(name -> " " + name).orElse(""));
            case Long number -> new JsonPrimitive(number.toString());
            case BigInteger number -> new JsonPrimitive(number.toString());
            case Float number -> encodeFloat(number);
            case Double number -> encodeFloat(number);
            case BigDecimal number -> new JsonPrimitive(number.unscaledValue() + "e-" + number.scale());
            case String text -> new JsonPrimitive(text);
            case byte[] bytes -> encodeBytes(bytes);
            case UUID uuid -> encodeBytes(Internals.bytes(uuid));
            case LocalDate date -> new JsonPrimitive("date " + date.toEpochDay());
            case LocalTime time
            when type instanceof Type.Time(Type.Unit unit) ->
                encodeTime("time", BigInteger.valueOf(time.toNanoOfDay()), unit, "");
            case Instant instant
            when type instanceof Type.Timestamp(Type.Unit unit, var zone) ->
                encodeTime(
                        "timestamp",
                        totalNanos(instant.getEpochSecond(), instant.getNano()),
                        unit,
                        " " + zone.orElseThrow());
            case LocalDateTime local
            when type instanceof Type.Timestamp(Type.Unit unit, var zone) ->
                encodeTime("timestamp", totalNanos(local.toEpochSecond(ZoneOffset.UTC), local.getNano()), unit, "");
            case Duration duration
            when type instanceof Type.Duration(Type.Unit unit) ->
                encodeTime("duration", totalNanos(duration.getSeconds(), duration.getNano()), unit, "");
            case Interval(int months, int days, long nanoseconds) ->
                new JsonPrimitive("interval " + months + " " + days + " " + nanoseconds);
            case Member(String name, Object memberValue) -> {
                List<Field> members = ((Type.Union) type).members();
                Field member = members.get(Fields.index(members, name));
                yield object(name, encode(memberValue, member.type()));
            }
            case Row row -> encodeStruct(row);
            case List<?> entries when type instanceof Type.MapOf map -> encodeMap(entries, map);
            case List<?> items when type instanceof Type.ListOf list -> encodeList(items, list.item());
            case List<?> items when type instanceof Type.FixedList list -> encodeList(items, list.item());
            default -> throw new AssertionError(value.getClass() + " of " + type);
        };
    }

    private static JsonObject encodeStruct(Row row) {
        JsonObject members = new JsonObject();
        for (int i = 0; i < row.size(); i++) {
            Field field = row.fields().get(i);
            members.add(field.name(), encode(row.get(i), field.type()));
        }
        return members;
    }

    private static JsonArray encodeMap(List<?> entries, Type.MapOf type) {
        JsonArray pairs = new JsonArray();
        for (Object item : entries) {
            Map.Entry<?, ?> entry = (Map.Entry<?, ?>) item;
            JsonArray pair = new JsonArray();
            pair.add(encode(entry.getKey(), type.key().type()));
            pair.add(encode(entry.getValue(), type.value().type()));
            pairs.add(pair);
        }
        return pairs;
    }

    private static JsonArray encodeList(List<?> items, Field itemField) {
        JsonArray encoded = new JsonArray();
        items.forEach(item -> encoded.add(encode(item, itemField.type())));
        return encoded;
    }

    /** Encodes a floating point number; JSON has no infinities and no NaN, which become null. */
    static JsonElement encodeFloat(double number) {
        return Double.isFinite(number) ? new JsonPrimitive(number) : JsonNull.INSTANCE;
    }

    static JsonElement encodeBytes(byte[] bytes) {
        return new JsonPrimitive("0x" + HexFormat.of().formatHex(bytes));
    }

    /** Returns an object with one member. */
    static JsonObject object(String name, JsonElement value) {
        JsonObject object = new JsonObject();
        object.add(name, value);
        return object;
    }

    private static BigInteger totalNanos(long seconds, int nanos) {
        return BigInteger.valueOf(seconds).multiply(NANOS_PER_SECOND).add(BigInteger.valueOf(nanos));
    }

    /** Encodes a time as a count of its unit, with a question mark if it isn't a multiple of the unit. */
    private static JsonElement encodeTime(String kind, BigInteger nanos, Type.Unit unit, String zoneSuffix) {
        BigInteger nanosPerUnit = NANOS_PER_SECOND.divide(BigInteger.valueOf(unit.perSecond()));
        BigInteger[] count = nanos.divideAndRemainder(nanosPerUnit);
        String inexact = count[1].signum() == 0 ? "" : "?";
        return new JsonPrimitive(kind + " " + count[0] + inexact + unit + zoneSuffix);
    }

    /** Returns true if two encodings are equal; numbers are compared by value. */
    static boolean areEqual(JsonElement left, JsonElement right) {
        if (left.isJsonArray() && right.isJsonArray()) {
            return areEqual(left.getAsJsonArray(), right.getAsJsonArray());
        }
        if (left.isJsonObject() && right.isJsonObject()) {
            return areEqual(left.getAsJsonObject(), right.getAsJsonObject());
        }
        if (isNumber(left) && isNumber(right)) {
            return left.getAsDouble() == right.getAsDouble();
        }
        return left.equals(right);
    }

    private static boolean areEqual(JsonArray left, JsonArray right) {
        if (left.size() != right.size()) {
            return false;
        }
        for (int i = 0; i < left.size(); i++) {
            if (!areEqual(left.get(i), right.get(i))) {
                return false;
            }
        }
        return true;
    }

    private static boolean areEqual(JsonObject left, JsonObject right) {
        return left.keySet().equals(right.keySet())
                && left.keySet().stream().allMatch(key -> areEqual(left.get(key), right.get(key)));
    }

    private static boolean isNumber(JsonElement element) {
        return element.isJsonPrimitive() && element.getAsJsonPrimitive().isNumber();
    }
}
