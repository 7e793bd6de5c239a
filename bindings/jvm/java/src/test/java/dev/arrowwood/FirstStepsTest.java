package dev.arrowwood;

import static dev.arrowwood.Condition.col;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the main calls of the API together, as a new user makes them. */
class FirstStepsTest {
    // The first segment of a table: see docs/format.md.
    private static final String FIRST_SEGMENT = "00000000000000000000.arrow";
    private static final String MAGIC = "ArrwWood";
    private static final int PAGE_SIZE = 4096;
    /** The offset in the header of {@code zones}, the number of columns with zone maps; {@code flags} is behind it. */
    private static final int HEADER_ZONES = 108;

    @TempDir
    Path folder;

    record Price(String symbol, double price) {}

    record Tick(Instant ts, String symbol, double price, Optional<Long> size) {}

    private Dataset writeAndOpenPrices() throws Exception {
        Path csv = Files.writeString(folder.resolve("prices.csv"), "symbol,price\nMSFT,39.81\nIBM,100.5\nAAPL,25.75\n");
        Arrowwood.readCsv(csv).write(folder.resolve("prices.arrow"));
        return Arrowwood.open(folder.resolve("prices.arrow"));
    }

    @Test
    void fileIsReadInPlace() throws Exception {
        Dataset dataset = writeAndOpenPrices();
        assertEquals(3, dataset.rowCount());
        assertEquals("symbol: utf8, price: float64", dataset.schema().toString());
        assertEquals(Map.of("symbol", "IBM", "price", 100.5), dataset.row(1).asMap());
        assertEquals("{symbol=IBM, price=100.5}", dataset.row(1).toString());
        assertEquals(166.06, (double) dataset.column("price").sum(), 1e-9);
        assertEquals(166.06, dataset.column("price").asDouble().stream().sum(), 1e-9);
        assertEquals(25.75, dataset.column("price").asDouble().get(2));
        assertEquals(
                new Price("AAPL", 25.75), dataset.stream(Price.class).toList().get(2));
        double sum = 0;
        for (Chunk chunk : dataset.column("price").chunks()) {
            for (long row = 0; row < chunk.rowCount(); row++) {
                sum += chunk.values().getAtIndex(ValueLayout.JAVA_DOUBLE_UNALIGNED, row);
            }
        }
        assertEquals(166.06, sum, 1e-9);
        assertTrue(dataset.toString().contains("3 rows × 2 columns"), dataset.toString());
        assertEquals(0, dataset.footprint().copied());
    }

    @Test
    void rowsAreFilteredAndAggregated() throws Exception {
        Dataset dataset = writeAndOpenPrices();
        Dataset expensive = dataset.filter(col("price").gt(30).and(col("symbol").in("IBM", "AAPL")));
        assertEquals(
                List.of("IBM"),
                expensive.stream().map(row -> row.getString("symbol")).toList());
        assertEquals(2, dataset.filter(col("symbol").eq("IBM").not()).rowCount());
        assertEquals("AAPL", dataset.take(-1).row(0).get("symbol"));
        Row means = dataset.aggregate(List.of(), Aggregate.mean("price").as("m"), Aggregate.count())
                .only();
        assertEquals(55.353, means.getDouble("m"), 1e-3);
        assertEquals(3, means.getLong("count"));
        Row medians = dataset.aggregate(List.of(), Aggregate.median("price"), Aggregate.nUnique("symbol"))
                .only();
        assertEquals(dataset.column("price").quantile(0.5).getAsDouble(), medians.getDouble("price"));
        assertEquals(dataset.column("symbol").nUnique(), medians.getLong("symbol"));
        assertEquals("MSFT", dataset.slice(0, 1).only().get(0));
    }

    @Test
    void appendedRowsReachFollowerAndRefresh() throws Exception {
        Path table = folder.resolve("ticks");
        Instant start = Instant.parse("2026-01-01T00:00:00.000001Z");
        try (TableWriter writer = TableWriter.open(
                table,
                Schema.of(Tick.class),
                WriterOptions.DEFAULT.sortedBy("ts").dictionary("symbol"))) {
            Dataset empty = Arrowwood.open(table);
            assertEquals(0, empty.rowCount());
            try (Follow follow = empty.follow(0)) {
                assertEquals(Optional.empty(), follow.next(Duration.ofMillis(1)));
                writer.append(new Tick(start, "IBM", 1.5, Optional.empty()));
                writer.append(Map.of("ts", start.plusSeconds(1), "symbol", "AAPL", "price", 2, "size", 7));
                writer.appendRow(start.plusSeconds(2), "IBM", 3.5, null);
                writer.commit();
                Dataset rows = follow.next(Duration.ofSeconds(10)).orElseThrow();
                assertEquals(3, rows.rowCount());
                assertEquals(3, follow.nextRow());
            }
            assertEquals(3, empty.refresh().rowCount());
            assertEquals(3, writer.progress().committedRows());
            IllegalArgumentException failure = assertThrows(
                    IllegalArgumentException.class, () -> writer.append(new Tick(start, "X", 0, Optional.empty())));
            assertTrue(failure.getMessage().contains("ts"), failure.getMessage());
        }
        List<Tick> expected = List.of(
                new Tick(start, "IBM", 1.5, Optional.empty()),
                new Tick(start.plusSeconds(1), "AAPL", 2, Optional.of(7L)),
                new Tick(start.plusSeconds(2), "IBM", 3.5, Optional.empty()));
        assertEquals(expected, Arrowwood.open(table).stream(Tick.class).toList());
        assertEquals(
                2,
                Arrowwood.open(table)
                        .between(start.plusSeconds(1), start.plusSeconds(5))
                        .rowCount());
        assertTrue(Arrowwood.check(table).isIntact());
        assertEquals(3, Arrowwood.stat(table).end());
    }

    @Test
    void lateRowsAreFoundByBetweenAndFilter() throws Exception {
        Path table = folder.resolve("late");
        WriterOptions options = WriterOptions.DEFAULT
                .sortedBy("ts")
                .late(WriterOptions.Late.ACCEPT)
                .index("symbol");
        Schema schema = Schema.parse("ts: int64 not null, symbol: utf8");
        try (TableWriter writer = TableWriter.open(table, schema, options)) {
            writer.appendRow(5, "a");
            writer.appendRow(8, "b");
            writer.appendRow(6, "a");
            writer.commit();
        }
        try (TableWriter writer = TableWriter.open(table)) {
            // The options are those that the table was created with.
            writer.appendRow(7, "b");
            writer.commit();
        }
        Dataset late = Arrowwood.open(table);
        assertEquals(
                List.of(6L, 7L),
                late.between(6, 7).stream().map(row -> row.get("ts")).toList());
        assertEquals(
                List.of(8L, 7L),
                late.filter(col("symbol").eq("b")).stream()
                        .map(row -> row.get("ts"))
                        .toList());
        // Callers must not rely on an order of rows.
        assertTrue(late.sortedBy().isEmpty());
        // The header says that both columns have zone maps, and that late rows are accepted: see docs/format.md.
        byte[] bytes = Files.readAllBytes(table.resolve(FIRST_SEGMENT));
        int zones = findHeader(bytes) + HEADER_ZONES;
        assertArrayEquals(new byte[] {2, 0, 1, 0}, Arrays.copyOfRange(bytes, zones, zones + Integer.BYTES));
        assertThrows(
                ArrowwoodException.ColumnNotFound.class,
                () -> TableWriter.open(folder.resolve("other"), schema, options.index("nothing")));
        IllegalArgumentException failure = assertThrows(
                IllegalArgumentException.class,
                () -> TableWriter.open(table, schema, options.late(WriterOptions.Late.REFUSE)));
        assertTrue(failure.getMessage().contains("accepts late rows"), failure.getMessage());
    }

    /** Returns the offset of a segment's header, which begins with a magic number at the start of a page. */
    private static int findHeader(byte[] bytes) {
        int offset = 0;
        while (!new String(bytes, offset, MAGIC.length(), StandardCharsets.ISO_8859_1).equals(MAGIC)) {
            offset += PAGE_SIZE;
        }
        return offset;
    }

    enum Side {
        BUY,
        SELL
    }

    record AllKinds(
            boolean flag,
            byte small,
            short medium,
            int number,
            long large,
            float single,
            double twice,
            Boolean mayBe,
            Integer some,
            Float half,
            String text,
            Side side,
            UUID id,
            Instant at,
            LocalDateTime local,
            LocalDate day,
            LocalTime time,
            Duration length,
            Optional<String> note,
            Optional<Instant> until) {}

    @Test
    void recordsWithComponentsOfAllKindsAreReadBack() throws Exception {
        AllKinds full = new AllKinds(
                true,
                (byte) -1,
                (short) 300,
                70_000,
                1L << 40,
                0.5f,
                0.1,
                false,
                3,
                1.5f,
                "ä",
                Side.SELL,
                UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"),
                Instant.parse("1969-12-31T23:59:59.5Z"),
                LocalDateTime.of(2026, 1, 2, 3, 4, 5),
                LocalDate.of(1900, 1, 1),
                LocalTime.of(23, 59, 59),
                Duration.ofMillis(-1500),
                Optional.of("x"),
                Optional.of(Instant.EPOCH));
        AllKinds empty = new AllKinds(
                false,
                (byte) 0,
                (short) 0,
                0,
                0,
                0,
                0,
                null,
                null,
                null,
                null,
                null,
                new UUID(0, 0),
                null,
                null,
                null,
                null,
                null,
                Optional.empty(),
                Optional.empty());
        Path table = folder.resolve("kinds");
        try (TableWriter writer = TableWriter.open(table, Schema.of(AllKinds.class))) {
            writer.append(full);
            writer.append(empty);
            writer.commit();
        }
        Schema schema = Arrowwood.open(table).schema();
        assertEquals("side: dictionary<int32, utf8>", schema.field("side").toString());
        assertEquals(Schema.of(AllKinds.class), schema);
        assertEquals(
                List.of(full, empty),
                Arrowwood.open(table).stream(AllKinds.class).toList());
    }

    record Optionals(
            OptionalLong n,
            OptionalInt i,
            OptionalDouble x,
            OptionalDouble single,
            Optional<String> s,
            OptionalLong small) {}

    @Test
    void optionalComponentsAreValuesOrNull() throws Exception {
        Schema derived = Schema.of(Optionals.class);
        assertEquals("n: int64, i: int32, x: float64, single: float64, s: utf8, small: int64", derived.toString());
        Optionals full = new Optionals(
                OptionalLong.of(1L << 40),
                OptionalInt.of(-3),
                OptionalDouble.of(1.5),
                OptionalDouble.of(0.25),
                Optional.of("x"),
                OptionalLong.of(7));
        Optionals empty = new Optionals(
                OptionalLong.empty(),
                OptionalInt.empty(),
                OptionalDouble.empty(),
                OptionalDouble.empty(),
                Optional.empty(),
                OptionalLong.empty());
        for (Schema schema : List.of(
                derived, Schema.parse("n: int64, i: int32, x: float64, single: float32, s: category, small: uint8"))) {
            Path table = folder.resolve("maybe" + schema.hashCode());
            try (TableWriter writer = TableWriter.open(table, schema)) {
                for (Optionals row : List.of(full, empty)) {
                    writer.append(row);
                    writer.append(Map.of(
                            "n", row.n, "i", row.i, "x", row.x, "single", row.single, "s", row.s, "small", row.small));
                    writer.appendRow(row.n, row.i, row.x, row.single, row.s, row.small);
                }
                writer.commit();
            }
            Dataset dataset = Arrowwood.open(table);
            assertEquals(
                    List.of(full, full, full, empty, empty, empty),
                    dataset.stream(Optionals.class).toList());
            assertEquals(full, dataset.row(0).to(Optionals.class));
            assertEquals(
                    Arrays.asList(new Object[6]), Arrays.asList(dataset.row(3).toArray()));
            assertEquals(3, dataset.filter(col("n").eq(full.n)).rowCount());
            assertEquals(
                    3, dataset.filter(col("i").in(full.i, OptionalInt.of(9))).rowCount());
            assertEquals(3, dataset.filter(col("x").ge(full.x)).rowCount());
            assertEquals(0, dataset.filter(col("x").eq(OptionalDouble.empty())).rowCount());
        }
        record Narrow(OptionalInt n) {}
        Dataset wide = Arrowwood.open(folder.resolve("maybe" + derived.hashCode()));
        IllegalArgumentException failure = assertThrows(
                IllegalArgumentException.class, () -> wide.stream(Narrow.class).toList());
        assertTrue(failure.getMessage().contains("OptionalInt"), failure.getMessage());
    }

    @Test
    void closingArenaInvalidatesDatasets() throws Exception {
        writeAndOpenPrices();
        Dataset dataset;
        List<Dataset> derived = new ArrayList<>();
        try (Arena arena = Arena.ofConfined()) {
            dataset = Arrowwood.open(folder.resolve("prices.arrow"), arena);
            assertEquals(3, dataset.rowCount());
            derived.add(dataset.slice(1, 1));
        }
        assertThrows(IllegalStateException.class, dataset::rowCount);
        assertThrows(IllegalStateException.class, () -> derived.get(0).rowCount());
    }

    @Test
    void failuresAreStandardExceptions() throws Exception {
        Dataset dataset = writeAndOpenPrices();
        NoSuchFileException missing =
                assertThrows(NoSuchFileException.class, () -> Arrowwood.open(folder.resolve("no.arrow")));
        assertTrue(missing.getMessage().contains("no.arrow"), missing.getMessage());
        assertThrows(IndexOutOfBoundsException.class, () -> dataset.row(3));
        assertThrows(IllegalArgumentException.class, () -> dataset.column("cost"));
        assertThrows(
                UnsupportedOperationException.class,
                () -> dataset.column("symbol").sum());
    }
}
