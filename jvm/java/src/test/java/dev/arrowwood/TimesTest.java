package dev.arrowwood;

import static dev.arrowwood.Condition.col;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

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
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Times and their zones, wherever a value goes: into rows, conditions and bounds. */
class TimesTest {
    private static final List<String> ZONES =
            List.of("UTC", "Etc/UTC", "Z", "+00:00", "Europe/Zurich", "America/New_York", "+05:30", "-03:00");
    private static final Instant MOMENT = Instant.parse("2024-10-27T00:30:00.123456789Z");

    @TempDir
    Path folder;

    private int tables;

    /** The same moment as each class that has a zone. */
    private static List<Object> zoned(Instant instant) {
        return List.of(
                instant,
                instant.atZone(ZoneId.of("Europe/Zurich")),
                instant.atZone(ZoneId.of("America/New_York")),
                instant.atZone(ZoneOffset.UTC),
                instant.atOffset(ZoneOffset.ofHours(-7)),
                Optional.of(instant));
    }

    record OfInstant(Instant ts) {}

    record OfZoned(ZonedDateTime ts) {}

    record OfOffset(OffsetDateTime ts) {}

    record OfLocal(LocalDateTime ts) {}

    private Path table() {
        return folder.resolve("table" + tables++);
    }

    private static TableWriter writer(Path path, String type) throws Exception {
        return writer(path, type, WriterOptions.Late.REFUSE);
    }

    private static TableWriter writer(Path path, String type, WriterOptions.Late late) throws Exception {
        return TableWriter.open(
                path,
                Schema.parse("ts: " + type),
                WriterOptions.DEFAULT.sortedBy("ts").late(late));
    }

    /** In each way that a value becomes a cell. */
    private static List<Executable> appends(TableWriter writer, Object value) {
        List<Executable> ways =
                new ArrayList<>(List.of(() -> writer.appendRow(value), () -> writer.append(Map.of("ts", value))));
        switch (value) {
            case Instant instant -> ways.add(() -> writer.append(new OfInstant(instant)));
            case ZonedDateTime time -> ways.add(() -> writer.append(new OfZoned(time)));
            case OffsetDateTime time -> ways.add(() -> writer.append(new OfOffset(time)));
            case LocalDateTime time -> ways.add(() -> writer.append(new OfLocal(time)));
            default -> {}
        }
        return ways;
    }

    /** In each way that a value is compared with those of a column. */
    private static List<Function<Dataset, Dataset>> comparisons(Object value) {
        return List.of(
                ds -> ds.filter(col("ts").eq(value)),
                ds -> ds.filter(col("ts").ge(value).and(col("ts").le(value))),
                ds -> ds.filter(col("ts").ne(value).not()),
                ds -> ds.filter(col("ts").lt(value).or(col("ts").gt(value)).not()),
                ds -> ds.filter(col("ts").in(value)),
                ds -> ds.between(value, value),
                ds -> ds.aggregate(List.of("ts"), Optional.of(col("ts").eq(value)), Aggregate.count()));
    }

    @Test
    void timesWithAZoneAreOfColumnsInAnyZone() throws Exception {
        for (Type.Unit unit : Type.Unit.values()) {
            for (String zone : ZONES) {
                String type = "timestamp[" + unit + ", " + zone + "]";
                for (WriterOptions.Late late : WriterOptions.Late.values()) {
                    zonedTimesAreOf(type, MOMENT.truncatedTo(chrono(unit)), late);
                }
            }
        }
    }

    /** In a table whose rows may be late, Java doesn't know which column has the bounds of {@code between}. */
    private void zonedTimesAreOf(String type, Instant cut, WriterOptions.Late late) throws Exception {
        Path path = table();
        int rows = 0;
        try (TableWriter writer = writer(path, type, late)) {
            for (Object value : zoned(MOMENT)) {
                for (Executable append : appends(writer, value)) {
                    append.execute();
                    rows++;
                }
            }
            writer.commit();
        } catch (Throwable e) {
            throw new AssertionError(type, e);
        }
        Dataset ds = Arrowwood.open(path);
        assertEquals(rows, ds.rowCount());
        ds.forEach(row -> assertEquals(cut, row.get("ts"), type));
        List<Object> values = new ArrayList<>(zoned(cut));
        values.add(ds.row(0).get("ts"));
        for (Object value : values) {
            for (Function<Dataset, Dataset> comparison : comparisons(value)) {
                assertTrue(comparison.apply(ds).rowCount() > 0, () -> type + " " + value);
            }
        }
        for (Object value : zoned(cut.plusSeconds(1))) {
            for (Function<Dataset, Dataset> comparison : comparisons(value)) {
                assertEquals(0, comparison.apply(ds).rowCount(), () -> type + " " + value);
            }
        }
    }

    private static java.time.temporal.ChronoUnit chrono(Type.Unit unit) {
        return switch (unit) {
            case SECOND -> java.time.temporal.ChronoUnit.SECONDS;
            case MILLISECOND -> java.time.temporal.ChronoUnit.MILLIS;
            case MICROSECOND -> java.time.temporal.ChronoUnit.MICROS;
            case NANOSECOND -> java.time.temporal.ChronoUnit.NANOS;
        };
    }

    @Test
    void timesWithoutAZoneAreOfColumnsWithoutOne() throws Exception {
        LocalDateTime value = LocalDateTime.of(2024, 10, 27, 2, 30, 0, 123_000_000);
        Path path = table();
        try (TableWriter writer = writer(path, "timestamp[ms]")) {
            for (Executable append : appends(writer, value)) {
                append.execute();
            }
            writer.commit();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
        Dataset ds = Arrowwood.open(path);
        assertEquals(value, ds.row(0).get("ts"));
        for (Function<Dataset, Dataset> comparison : comparisons(value)) {
            assertTrue(comparison.apply(ds).rowCount() > 0);
        }
        assertEquals(3, ds.filter(col("ts").gt(LocalDate.of(2024, 10, 27))).rowCount());
    }

    /** A column, what it can't take, and what the message says instead. */
    private record Refused(String type, Object value, String advice) {}

    @Test
    void timesOfTheOtherKindAreRefusedInTheWordsOfJava() throws Exception {
        LocalDateTime local = LocalDateTime.of(2024, 1, 1, 0, 0);
        List<Refused> refused = new ArrayList<>();
        for (String zone : ZONES) {
            refused.add(new Refused("timestamp[us, " + zone + "]", local, "value.atZone(zone)"));
            refused.add(new Refused("timestamp[us, " + zone + "]", LocalDate.EPOCH, "value.atStartOfDay(zone)"));
            refused.add(new Refused("timestamp[us, " + zone + "]", "2024-01-01T00:00:00Z", ""));
        }
        for (Object value : zoned(MOMENT)) {
            refused.add(new Refused("timestamp[us]", value, "LocalDateTime.ofInstant(instant, zone)"));
            refused.add(new Refused("date32", value, ""));
        }
        refused.add(new Refused("timestamp[us]", "2024-01-01T00:00:00", ""));
        refused.add(new Refused("time64[us]", "00:00:00", ""));
        refused.add(new Refused("duration[us]", "PT1S", ""));
        refused.add(new Refused("date32", "2024-01-01", ""));
        for (Refused one : refused) {
            Path path = table();
            List<Executable> ways = new ArrayList<>();
            try (TableWriter writer = writer(path, one.type)) {
                writer.appendRow(0);
                writer.commit();
                Dataset ds = Arrowwood.open(path);
                ways.addAll(appends(writer, one.value));
                comparisons(one.value).forEach(comparison -> ways.add(() -> comparison.apply(ds)));
                for (Executable way : ways) {
                    String message = assertThrows(IllegalArgumentException.class, way, one::toString)
                            .getMessage();
                    assertTrue(message.contains(one.advice), message);
                    assertFalse(MessagesTest.FOREIGN.matcher(message).find(), message);
                }
                assertEquals(1, writer.progress().rows());
            }
        }
    }

    /** Three values of a column, and others that lie between them, each less than the next. */
    private record Ladder(String type, List<Object> values, List<Object> between) {}

    private static List<Ladder> ladders() {
        Instant second = Instant.ofEpochSecond(5);
        Instant before = Instant.ofEpochSecond(-5);
        return List.of(
                new Ladder(
                        "timestamp[s, Asia/Kolkata]",
                        List.of(before, second, second.plusSeconds(1)),
                        List.of(before.plusNanos(1), second.plusMillis(999))),
                new Ladder(
                        "timestamp[ms, UTC]",
                        List.of(before, second, second.plusMillis(1)),
                        List.of(before.plusNanos(1), second.plusNanos(999_999))),
                new Ladder(
                        "timestamp[us]",
                        List.of(
                                LocalDateTime.of(1969, 1, 1, 0, 0),
                                LocalDateTime.of(1970, 1, 1, 0, 0),
                                LocalDateTime.of(1970, 1, 1, 0, 0, 1)),
                        List.of(
                                LocalDateTime.of(1969, 1, 1, 0, 0, 0, 1),
                                LocalDateTime.of(1970, 1, 1, 0, 0, 0, 999_999_999))),
                new Ladder(
                        "time32[ms]",
                        List.of(LocalTime.MIDNIGHT, LocalTime.NOON, LocalTime.of(23, 59)),
                        List.of(LocalTime.of(0, 0, 0, 1), LocalTime.of(12, 0, 0, 999_999))),
                new Ladder(
                        "duration[s]",
                        List.of(Duration.ofSeconds(-2), Duration.ZERO, Duration.ofDays(200_000_000)),
                        List.of(
                                Duration.ofMillis(-1999),
                                Duration.ofDays(200_000_000).minusNanos(1))),
                new Ladder("int64", List.of(1L, 2L, 3L), List.of(1.5, new BigDecimal("2.000000001"))),
                new Ladder(
                        "decimal128(5, 1)",
                        List.of(new BigDecimal("-0.5"), new BigDecimal("0.5"), new BigDecimal("1.0")),
                        List.of(new BigDecimal("-0.49"), new BigDecimal("0.99"))),
                new Ladder(
                        "date32",
                        List.of(LocalDate.EPOCH.minusDays(1), LocalDate.EPOCH, LocalDate.EPOCH.plusDays(1)),
                        List.of(LocalDate.EPOCH.minusDays(1).atTime(0, 0, 0, 1_000), LocalDate.EPOCH.atTime(23, 59))));
    }

    @Test
    void boundsFinerThanTheColumnKeepTheirPrecision() throws Exception {
        for (Ladder ladder : ladders()) {
            Path path = table();
            try (TableWriter writer = writer(path, ladder.type)) {
                ladder.values.forEach(writer::appendRow);
                writer.commit();
            }
            Dataset ds = Arrowwood.open(path);
            // Each value, and what lies behind it: the rung of a value is 2i, that of one between is 2i + 1.
            List<Object> rungs = Stream.of(0, 1, 2)
                    .<Object>mapMulti((i, add) -> {
                        add.accept(ladder.values.get(i));
                        if (i < 2) {
                            add.accept(ladder.between.get(i));
                        }
                    })
                    .toList();
            for (int low = 0; low < rungs.size(); low++) {
                Object value = rungs.get(low);
                String what = ladder.type + " " + value;
                boolean isThere = low % 2 == 0;
                long below = (low + 1) / 2;
                long upTo = below + (isThere ? 1 : 0);
                assertEquals(below, ds.filter(col("ts").lt(value)).rowCount(), what);
                assertEquals(upTo, ds.filter(col("ts").le(value)).rowCount(), what);
                assertEquals(3 - upTo, ds.filter(col("ts").gt(value)).rowCount(), what);
                assertEquals(3 - below, ds.filter(col("ts").ge(value)).rowCount(), what);
                assertEquals(upTo - below, ds.filter(col("ts").eq(value)).rowCount(), what);
                assertEquals(3 - (upTo - below), ds.filter(col("ts").ne(value)).rowCount(), what);
                assertEquals(upTo - below, ds.filter(col("ts").in(value)).rowCount(), what);
                for (int high = low; high < rungs.size(); high++) {
                    Object most = rungs.get(high);
                    long expected = (high + 2) / 2 - below;
                    assertEquals(expected, ds.between(value, most).rowCount(), what + " to " + most);
                    assertEquals(
                            expected,
                            ds.filter(col("ts").ge(value).and(col("ts").le(most)))
                                    .rowCount(),
                            what + " to " + most);
                }
            }
        }
    }

    @Test
    void timesBeyondTheColumnAreComparedToo() throws Exception {
        Path path = table();
        try (TableWriter writer = writer(path, "timestamp[ns, UTC]")) {
            writer.appendRow(Instant.EPOCH);
            writer.commit();
        }
        Dataset ds = Arrowwood.open(path);
        assertEquals(1, ds.between(Instant.MIN, Instant.MAX).rowCount());
        assertEquals(1, ds.filter(col("ts").lt(Instant.MAX)).rowCount());
        assertEquals(0, ds.filter(col("ts").lt(Instant.MIN)).rowCount());
        assertEquals(0, ds.filter(col("ts").in(Instant.MIN, Instant.MAX)).rowCount());
    }
}
