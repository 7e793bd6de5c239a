package dev.arrowwood;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
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

/** Values in the spelling of examples/samples, which every language can make without rounding. */
final class Spelled {
    private Spelled() {}

    static JsonArray rows(Dataset dataset) {
        JsonArray rows = new JsonArray();
        dataset.stream().forEach(row -> rows.add(row(row)));
        return rows;
    }

    static JsonArray row(Row row) {
        JsonArray cells = new JsonArray();
        for (int i = 0; i < row.size(); i++) {
            cells.add(value(row.get(i), row.fields().get(i).type()));
        }
        return cells;
    }

    static JsonElement value(Object value, Type given) {
        Type type = Values.plain(given);
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
            case Float number -> number(number);
            case Double number -> number(number);
            case BigDecimal number -> new JsonPrimitive(number.unscaledValue() + "e-" + number.scale());
            case String text -> new JsonPrimitive(text);
            case byte[] bytes -> bytes(bytes);
            case UUID uuid -> bytes(Values.bytes(uuid));
            case LocalDate date -> new JsonPrimitive("date " + date.toEpochDay());
            case LocalTime time
            when type instanceof Type.Time(Type.Unit unit) ->
                time("time", BigInteger.valueOf(time.toNanoOfDay()), unit, "");
            case Instant instant
            when type instanceof Type.Timestamp(Type.Unit unit, var zone) ->
                time("timestamp", nanos(instant.getEpochSecond(), instant.getNano()), unit, " " + zone.orElseThrow());
            case LocalDateTime local
            when type instanceof Type.Timestamp(Type.Unit unit, var zone) ->
                time("timestamp", nanos(local.toEpochSecond(ZoneOffset.UTC), local.getNano()), unit, "");
            case Duration duration
            when type instanceof Type.Duration(Type.Unit unit) ->
                time("duration", nanos(duration.getSeconds(), duration.getNano()), unit, "");
            case Interval(int months, int days, long nanoseconds) ->
                new JsonPrimitive("interval " + months + " " + days + " " + nanoseconds);
            case Member(String name, Object inner) -> {
                Type.Union union = (Type.Union) type;
                Field member = union.members().get(Schema.index(union.members(), name));
                yield object(name, value(inner, member.type()));
            }
            case Row row -> {
                JsonObject members = new JsonObject();
                for (int i = 0; i < row.size(); i++) {
                    members.add(
                            row.fields().get(i).name(),
                            value(row.get(i), row.fields().get(i).type()));
                }
                yield members;
            }
            case List<?> items
            when type instanceof Type.MapOf map -> {
                JsonArray pairs = new JsonArray();
                for (Object item : items) {
                    Map.Entry<?, ?> entry = (Map.Entry<?, ?>) item;
                    JsonArray pair = new JsonArray();
                    pair.add(value(entry.getKey(), map.key().type()));
                    pair.add(value(entry.getValue(), map.value().type()));
                    pairs.add(pair);
                }
                yield pairs;
            }
            case List<?> items -> {
                Field item = type instanceof Type.ListOf list ? list.item() : ((Type.FixedList) type).item();
                JsonArray spelled = new JsonArray();
                items.forEach(one -> spelled.add(value(one, item.type())));
                yield spelled;
            }
            default -> throw new AssertionError(value.getClass() + " of " + type);
        };
    }

    static JsonElement number(double number) {
        return Double.isFinite(number) ? new JsonPrimitive(number) : JsonNull.INSTANCE;
    }

    static JsonElement bytes(byte[] bytes) {
        return new JsonPrimitive("0x" + HexFormat.of().formatHex(bytes));
    }

    static JsonObject object(String name, JsonElement value) {
        JsonObject object = new JsonObject();
        object.add(name, value);
        return object;
    }

    private static BigInteger nanos(long seconds, int nanos) {
        return BigInteger.valueOf(seconds)
                .multiply(BigInteger.valueOf(1_000_000_000))
                .add(BigInteger.valueOf(nanos));
    }

    private static JsonElement time(String what, BigInteger nanos, Type.Unit unit, String zone) {
        BigInteger[] count = nanos.divideAndRemainder(BigInteger.valueOf(1_000_000_000 / unit.perSecond()));
        return new JsonPrimitive(what + " " + count[0] + (count[1].signum() == 0 ? "" : "?") + unit + zone);
    }

    /** Whether two spellings are the same; numbers by their value. */
    static boolean same(JsonElement one, JsonElement other) {
        if (one.isJsonArray() && other.isJsonArray()) {
            JsonArray left = one.getAsJsonArray();
            JsonArray right = other.getAsJsonArray();
            boolean same = left.size() == right.size();
            for (int i = 0; same && i < left.size(); i++) {
                same = same(left.get(i), right.get(i));
            }
            return same;
        }
        if (one.isJsonObject() && other.isJsonObject()) {
            JsonObject left = one.getAsJsonObject();
            JsonObject right = other.getAsJsonObject();
            return left.keySet().equals(right.keySet())
                    && left.keySet().stream().allMatch(key -> same(left.get(key), right.get(key)));
        }
        boolean numbers = one.isJsonPrimitive()
                && other.isJsonPrimitive()
                && one.getAsJsonPrimitive().isNumber()
                && other.getAsJsonPrimitive().isNumber();
        return numbers ? one.getAsDouble() == other.getAsDouble() : one.equals(other);
    }
}
