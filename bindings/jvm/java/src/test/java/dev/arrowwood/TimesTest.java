package dev.arrowwood;

import static dev.arrowwood.Condition.col;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.arrowwood.types.Type;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Tests times with and without zones as values of rows, in conditions and as bounds of {@code between}. */
class TimesTest {
    private static final List<String> ZONES =
            List.of("UTC", "Etc/UTC", "Z", "+00:00", "Europe/Zurich", "America/New_York", "+05:30", "-03:00");
    private static final Instant MOMENT = Instant.parse("2024-10-27T00:30:00.123456789Z");

    @TempDir
    Path folder;

    private int tableCount;

    /** Returns an instant as an object of each class that has a zone. */
    private static List<Object> zonedValues(Instant instant) {
        return List.of(
                instant,
                instant.atZone(ZoneId.of("Europe/Zurich")),
                instant.atZone(ZoneId.of("America/New_York")),
                instant.atZone(ZoneOffset.UTC),
                instant.atOffset(ZoneOffset.ofHours(-7)),
                Optional.of(instant));
    }

    record InstantRow(Instant ts) {}

    record ZonedRow(ZonedDateTime ts) {}

    record OffsetRow(OffsetDateTime ts) {}

    record LocalRow(LocalDateTime ts) {}

    private Path newTablePath() {
        return folder.resolve("table" + tableCount++);
    }

    /** Opens a writer of a new table with one column {@code ts}, by which it is sorted. */
    private static TableWriter openWriter(Path path, String type) throws Exception {
        return openWriter(path, type, WriterOptions.Late.REFUSE);
    }

    private static TableWriter openWriter(Path path, String type, WriterOptions.Late late) throws Exception {
        return TableWriter.open(
                path,
                Schema.parse("ts: " + type),
                WriterOptions.DEFAULT.sortedBy("ts").late(late));
    }

    /** Returns calls that append a row with a value: each way to append, as far as there is one for its class. */
    private static List<Executable> appends(TableWriter writer, Object value) {
        List<Executable> appends = new ArrayList<>();
        appends.add(() -> writer.appendRow(value));
        appends.add(() -> writer.append(Map.of("ts", value)));
        switch (value) {
            case Instant instant -> appends.add(() -> writer.append(new InstantRow(instant)));
            case ZonedDateTime time -> appends.add(() -> writer.append(new ZonedRow(time)));
            case OffsetDateTime time -> appends.add(() -> writer.append(new OffsetRow(time)));
            case LocalDateTime time -> appends.add(() -> writer.append(new LocalRow(time)));
            default -> {}
        }
        return appends;
    }

    /** Returns queries for the rows with a value: each way to compare it with a column. */
    private static List<Function<Dataset, Dataset>> queries(Object value) {
        return List.of(
                dataset -> dataset.filter(col("ts").eq(value)),
                dataset -> dataset.filter(col("ts").ge(value).and(col("ts").le(value))),
                dataset -> dataset.filter(col("ts").ne(value).not()),
                dataset -> dataset.filter(
                        col("ts").lt(value).or(col("ts").gt(value)).not()),
                dataset -> dataset.filter(col("ts").in(value)),
                dataset -> dataset.between(value, value),
                dataset ->
                        dataset.aggregate(List.of("ts"), Optional.of(col("ts").eq(value)), Aggregate.count()));
    }

    @Test
    void zonedValuesMatchColumnsWithAnyZone() throws Exception {
        for (Type.Unit unit : Type.Unit.values()) {
            Instant truncated = MOMENT.truncatedTo(chronoUnit(unit));
            for (String zone : ZONES) {
                String type = "timestamp[" + unit + ", " + zone + "]";
                // A table that accepts late rows has no sort column, so `between` converts its bounds without a type.
                for (WriterOptions.Late late : WriterOptions.Late.values()) {
                    assertZonedValuesMatch(type, truncated, late);
                }
            }
        }
    }

    /** Appends {@link #MOMENT} in all ways, and queries it as the column stores it, without smaller units. */
    private void assertZonedValuesMatch(String type, Instant truncated, WriterOptions.Late late) throws Exception {
        Path path = newTablePath();
        int rowCount = 0;
        try (TableWriter writer = openWriter(path, type, late)) {
            for (Object value : zonedValues(MOMENT)) {
                for (Executable append : appends(writer, value)) {
                    assertDoesNotThrow(append, type);
                    rowCount++;
                }
            }
            writer.commit();
        }
        Dataset dataset = Arrowwood.open(path);
        assertEquals(rowCount, dataset.rowCount());
        dataset.forEach(row -> assertEquals(truncated, row.get("ts"), type));
        List<Object> equalValues = new ArrayList<>(zonedValues(truncated));
        equalValues.add(dataset.row(0).get("ts"));
        for (Object value : equalValues) {
            for (Function<Dataset, Dataset> query : queries(value)) {
                assertTrue(query.apply(dataset).rowCount() > 0, () -> type + " " + value);
            }
        }
        for (Object value : zonedValues(truncated.plusSeconds(1))) {
            for (Function<Dataset, Dataset> query : queries(value)) {
                assertEquals(0, query.apply(dataset).rowCount(), () -> type + " " + value);
            }
        }
    }

    private static ChronoUnit chronoUnit(Type.Unit unit) {
        return switch (unit) {
            case SECOND -> ChronoUnit.SECONDS;
            case MILLISECOND -> ChronoUnit.MILLIS;
            case MICROSECOND -> ChronoUnit.MICROS;
            case NANOSECOND -> ChronoUnit.NANOS;
        };
    }

    @Test
    void localValuesMatchColumnsWithoutZone() throws Exception {
        LocalDateTime value = LocalDateTime.of(2024, 10, 27, 2, 30, 0, 123_000_000);
        Path path = newTablePath();
        try (TableWriter writer = openWriter(path, "timestamp[ms]")) {
            for (Executable append : appends(writer, value)) {
                assertDoesNotThrow(append);
            }
            writer.commit();
        }
        Dataset dataset = Arrowwood.open(path);
        assertEquals(value, dataset.row(0).get("ts"));
        for (Function<Dataset, Dataset> query : queries(value)) {
            assertTrue(query.apply(dataset).rowCount() > 0);
        }
        assertEquals(3, dataset.filter(col("ts").gt(LocalDate.of(2024, 10, 27))).rowCount());
    }

    /** A value that a column of a type can't take, and what the message advises instead. */
    private record RefusedValue(String type, Object value, String advice) {}

    private static List<RefusedValue> refusedValues() {
        LocalDateTime local = LocalDateTime.of(2024, 1, 1, 0, 0);
        List<RefusedValue> refused = new ArrayList<>();
        for (String zone : ZONES) {
            String type = "timestamp[us, " + zone + "]";
            refused.add(new RefusedValue(type, local, "value.atZone(zone)"));
            refused.add(new RefusedValue(type, LocalDate.EPOCH, "value.atStartOfDay(zone)"));
            refused.add(new RefusedValue(type, "2024-01-01T00:00:00Z", ""));
        }
        for (Object value : zonedValues(MOMENT)) {
            refused.add(new RefusedValue("timestamp[us]", value, "LocalDateTime.ofInstant(instant, zone)"));
            refused.add(new RefusedValue("date32", value, ""));
        }
        refused.add(new RefusedValue("timestamp[us]", "2024-01-01T00:00:00", ""));
        refused.add(new RefusedValue("time64[us]", "00:00:00", ""));
        refused.add(new RefusedValue("duration[us]", "PT1S", ""));
        refused.add(new RefusedValue("date32", "2024-01-01", ""));
        return refused;
    }

    @Test
    void otherKindsOfTimesAreRefusedWithAdviceForJava() throws Exception {
        for (RefusedValue refused : refusedValues()) {
            Path path = newTablePath();
            try (TableWriter writer = openWriter(path, refused.type)) {
                writer.appendRow(0);
                writer.commit();
                Dataset dataset = Arrowwood.open(path);
                List<Executable> calls = new ArrayList<>(appends(writer, refused.value));
                queries(refused.value).forEach(query -> calls.add(() -> query.apply(dataset)));
                for (Executable call : calls) {
                    String message = assertThrows(IllegalArgumentException.class, call, refused::toString)
                            .getMessage();
                    assertTrue(message.contains(refused.advice), message);
                    assertFalse(MessagesTest.FOREIGN.matcher(message).find(), message);
                }
                assertEquals(1, writer.progress().rows());
            }
        }
    }

    /** Three ascending values of a column, and two values between them, which are finer than the column's unit. */
    private record Scale(String type, List<Object> values, List<Object> between) {
        /** Returns all values in ascending order: those of the column have even indexes. */
        List<Object> ascending() {
            return List.of(values.get(0), between.get(0), values.get(1), between.get(1), values.get(2));
        }
    }

    private static List<Scale> scales() {
        Instant positive = Instant.ofEpochSecond(5);
        Instant negative = Instant.ofEpochSecond(-5);
        return List.of(
                new Scale(
                        "timestamp[s, Asia/Kolkata]",
                        List.of(negative, positive, positive.plusSeconds(1)),
                        List.of(negative.plusNanos(1), positive.plusMillis(999))),
                new Scale(
                        "timestamp[ms, UTC]",
                        List.of(negative, positive, positive.plusMillis(1)),
                        List.of(negative.plusNanos(1), positive.plusNanos(999_999))),
                new Scale(
                        "timestamp[us]",
                        List.of(
                                LocalDateTime.of(1969, 1, 1, 0, 0),
                                LocalDateTime.of(1970, 1, 1, 0, 0),
                                LocalDateTime.of(1970, 1, 1, 0, 0, 1)),
                        List.of(
                                LocalDateTime.of(1969, 1, 1, 0, 0, 0, 1),
                                LocalDateTime.of(1970, 1, 1, 0, 0, 0, 999_999_999))),
                new Scale(
                        "time32[ms]",
                        List.of(LocalTime.MIDNIGHT, LocalTime.NOON, LocalTime.of(23, 59)),
                        List.of(LocalTime.of(0, 0, 0, 1), LocalTime.of(12, 0, 0, 999_999))),
                new Scale(
                        "duration[s]",
                        List.of(Duration.ofSeconds(-2), Duration.ZERO, Duration.ofDays(200_000_000)),
                        List.of(
                                Duration.ofMillis(-1999),
                                Duration.ofDays(200_000_000).minusNanos(1))),
                new Scale("int64", List.of(1L, 2L, 3L), List.of(1.5, new BigDecimal("2.000000001"))),
                new Scale(
                        "decimal128(5, 1)",
                        List.of(new BigDecimal("-0.5"), new BigDecimal("0.5"), new BigDecimal("1.0")),
                        List.of(new BigDecimal("-0.49"), new BigDecimal("0.99"))),
                new Scale(
                        "date32",
                        List.of(LocalDate.EPOCH.minusDays(1), LocalDate.EPOCH, LocalDate.EPOCH.plusDays(1)),
                        List.of(LocalDate.EPOCH.minusDays(1).atTime(0, 0, 0, 1_000), LocalDate.EPOCH.atTime(23, 59))));
    }

    @Test
    void boundsFinerThanTheColumnAreComparedExactly() throws Exception {
        for (Scale scale : scales()) {
            Path path = newTablePath();
            try (TableWriter writer = openWriter(path, scale.type)) {
                scale.values.forEach(writer::appendRow);
                writer.commit();
            }
            Dataset dataset = Arrowwood.open(path);
            List<Object> bounds = scale.ascending();
            for (int low = 0; low < bounds.size(); low++) {
                Object value = bounds.get(low);
                String description = scale.type + " " + value;
                long less = (low + 1) / 2;
                long equal = low % 2 == 0 ? 1 : 0;
                long greater = 3 - less - equal;
                Condition.Col ts = col("ts");
                assertEquals(less, dataset.filter(ts.lt(value)).rowCount(), description);
                assertEquals(less + equal, dataset.filter(ts.le(value)).rowCount(), description);
                assertEquals(greater, dataset.filter(ts.gt(value)).rowCount(), description);
                assertEquals(equal + greater, dataset.filter(ts.ge(value)).rowCount(), description);
                assertEquals(equal, dataset.filter(ts.eq(value)).rowCount(), description);
                assertEquals(less + greater, dataset.filter(ts.ne(value)).rowCount(), description);
                assertEquals(equal, dataset.filter(ts.in(value)).rowCount(), description);
                for (int high = low; high < bounds.size(); high++) {
                    Object max = bounds.get(high);
                    String range = description + " to " + max;
                    long inRange = (high + 2) / 2 - less;
                    assertEquals(inRange, dataset.between(value, max).rowCount(), range);
                    Condition condition = ts.ge(value).and(ts.le(max));
                    assertEquals(inRange, dataset.filter(condition).rowCount(), range);
                }
            }
        }
    }

    @Test
    void boundsOutsideTheRangeOfTheColumnAreCompared() throws Exception {
        Path path = newTablePath();
        try (TableWriter writer = openWriter(path, "timestamp[ns, UTC]")) {
            writer.appendRow(Instant.EPOCH);
            writer.commit();
        }
        Dataset dataset = Arrowwood.open(path);
        assertEquals(1, dataset.between(Instant.MIN, Instant.MAX).rowCount());
        assertEquals(1, dataset.filter(col("ts").lt(Instant.MAX)).rowCount());
        assertEquals(0, dataset.filter(col("ts").lt(Instant.MIN)).rowCount());
        assertEquals(0, dataset.filter(col("ts").in(Instant.MIN, Instant.MAX)).rowCount());
    }
}
