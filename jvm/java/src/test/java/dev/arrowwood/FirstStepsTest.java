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

/** What the pages of the docs show, step by step. */
class FirstStepsTest {
    @TempDir
    Path folder;

    record Price(String symbol, double price) {}

    record Tick(Instant ts, String symbol, double price, Optional<Long> size) {}

    private Dataset prices() throws Exception {
        Path csv = Files.writeString(folder.resolve("prices.csv"), "symbol,price\nMSFT,39.81\nIBM,100.5\nAAPL,25.75\n");
        Arrowwood.readCsv(csv).write(folder.resolve("prices.arrow"));
        return Arrowwood.open(folder.resolve("prices.arrow"));
    }

    @Test
    void aFileIsOpenedAndReadInPlace() throws Exception {
        Dataset ds = prices();
        assertEquals(3, ds.rowCount());
        assertEquals("symbol: utf8, price: float64", ds.schema().toString());
        assertEquals(Map.of("symbol", "IBM", "price", 100.5), ds.row(1).asMap());
        assertEquals("{symbol=IBM, price=100.5}", ds.row(1).toString());
        assertEquals(166.06, (double) ds.column("price").sum(), 1e-9);
        assertEquals(166.06, ds.column("price").asDouble().stream().sum(), 1e-9);
        assertEquals(25.75, ds.column("price").asDouble().get(2));
        assertEquals(new Price("AAPL", 25.75), ds.stream(Price.class).toList().get(2));
        double sum = 0;
        for (Chunk chunk : ds.column("price").chunks()) {
            for (long row = 0; row < chunk.rowCount(); row++) {
                sum += chunk.values().getAtIndex(ValueLayout.JAVA_DOUBLE_UNALIGNED, row);
            }
        }
        assertEquals(166.06, sum, 1e-9);
        assertTrue(ds.toString().contains("3 rows × 2 columns"), ds.toString());
        assertEquals(0, ds.footprint().copied());
    }

    @Test
    void rowsAreSelectedAndAggregated() throws Exception {
        Dataset ds = prices();
        Dataset dear = ds.filter(col("price").gt(30).and(col("symbol").in("IBM", "AAPL")));
        assertEquals(
                List.of("IBM"),
                dear.stream().map(row -> row.getString("symbol")).toList());
        assertEquals(2, ds.filter(col("symbol").eq("IBM").not()).rowCount());
        assertEquals("AAPL", ds.take(-1).row(0).get("symbol"));
        Row all = ds.aggregate(List.of(), Aggregate.mean("price").as("m"), Aggregate.count())
                .only();
        assertEquals(55.353, all.getDouble("m"), 1e-3);
        assertEquals(3, all.getLong("count"));
        Row other = ds.aggregate(List.of(), Aggregate.median("price"), Aggregate.nUnique("symbol"))
                .only();
        assertEquals(ds.column("price").quantile(0.5).getAsDouble(), other.getDouble("price"));
        assertEquals(ds.column("symbol").nUnique(), other.getLong("symbol"));
        assertEquals("MSFT", ds.slice(0, 1).only().get(0));
    }

    @Test
    void aTableGrowsAndIsFollowed() throws Exception {
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
            var refused = assertThrows(
                    IllegalArgumentException.class, () -> writer.append(new Tick(start, "X", 0, Optional.empty())));
            assertTrue(refused.getMessage().contains("ts"), refused.getMessage());
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
    void lateRowsAreFound() throws Exception {
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
        try (TableWriter writer = TableWriter.open(table)) { // as it was created
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
        assertTrue(late.sortedBy().isEmpty()); // nothing may rely on their order
        // The header has zones of both columns, and says that late rows are accepted: docs/format.md.
        byte[] bytes = Files.readAllBytes(table.resolve("00000000000000000000.arrow"));
        int header = 0;
        while (!new String(bytes, header, 8, StandardCharsets.ISO_8859_1).equals("ArrwWood")) {
            header += 4096;
        }
        assertArrayEquals(new byte[] {2, 0, 1, 0}, Arrays.copyOfRange(bytes, header + 108, header + 112));
        assertThrows(
                ArrowwoodException.ColumnNotFound.class,
                () -> TableWriter.open(folder.resolve("other"), schema, options.index("nothing")));
        var refused = assertThrows(
                IllegalArgumentException.class,
                () -> TableWriter.open(table, schema, options.late(WriterOptions.Late.REFUSE)));
        assertTrue(refused.getMessage().contains("accepts late rows"), refused.getMessage());
    }

    enum Side {
        BUY,
        SELL
    }

    record Kinds(
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
    void recordsOfAllKindsGoThereAndBack() throws Exception {
        Kinds full = new Kinds(
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
        Kinds empty = new Kinds(
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
        try (TableWriter writer = TableWriter.open(table, Schema.of(Kinds.class))) {
            writer.append(full);
            writer.append(empty);
            writer.commit();
        }
        Schema schema = Arrowwood.open(table).schema();
        assertEquals("side: dictionary<int32, utf8>", schema.field("side").toString());
        assertEquals(Schema.of(Kinds.class), schema);
        assertEquals(
                List.of(full, empty), Arrowwood.open(table).stream(Kinds.class).toList());
    }

    record Maybe(
            OptionalLong n,
            OptionalInt i,
            OptionalDouble x,
            OptionalDouble single,
            Optional<String> s,
            OptionalLong small) {}

    @Test
    void whatMayBeMissingIsItsValueOrNull() throws Exception {
        Schema derived = Schema.of(Maybe.class);
        assertEquals("n: int64, i: int32, x: float64, single: float64, s: utf8, small: int64", derived.toString());
        Maybe full = new Maybe(
                OptionalLong.of(1L << 40),
                OptionalInt.of(-3),
                OptionalDouble.of(1.5),
                OptionalDouble.of(0.25),
                Optional.of("x"),
                OptionalLong.of(7));
        Maybe empty = new Maybe(
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
                for (Maybe one : List.of(full, empty)) {
                    writer.append(one);
                    writer.append(Map.of(
                            "n", one.n, "i", one.i, "x", one.x, "single", one.single, "s", one.s, "small", one.small));
                    writer.appendRow(one.n, one.i, one.x, one.single, one.s, one.small);
                }
                writer.commit();
            }
            Dataset ds = Arrowwood.open(table);
            assertEquals(
                    List.of(full, full, full, empty, empty, empty),
                    ds.stream(Maybe.class).toList());
            assertEquals(full, ds.row(0).to(Maybe.class));
            assertEquals(Arrays.asList(new Object[6]), Arrays.asList(ds.row(3).toArray()));
            assertEquals(3, ds.filter(col("n").eq(full.n)).rowCount());
            assertEquals(3, ds.filter(col("i").in(full.i, OptionalInt.of(9))).rowCount());
            assertEquals(3, ds.filter(col("x").ge(full.x)).rowCount());
            assertEquals(0, ds.filter(col("x").eq(OptionalDouble.empty())).rowCount());
        }
        record Narrow(OptionalInt n) {}
        Dataset wide = Arrowwood.open(folder.resolve("maybe" + derived.hashCode()));
        var refused = assertThrows(
                IllegalArgumentException.class, () -> wide.stream(Narrow.class).toList());
        assertTrue(refused.getMessage().contains("OptionalInt"), refused.getMessage());
    }

    @Test
    void closingTheArenaEndsTheDataset() throws Exception {
        prices();
        Dataset ds;
        List<Dataset> derived = new ArrayList<>();
        try (Arena arena = Arena.ofConfined()) {
            ds = Arrowwood.open(folder.resolve("prices.arrow"), arena);
            assertEquals(3, ds.rowCount());
            derived.add(ds.slice(1, 1));
        }
        assertThrows(IllegalStateException.class, ds::rowCount);
        assertThrows(IllegalStateException.class, () -> derived.get(0).rowCount());
    }

    @Test
    void failuresAreThoseThatJavaKnows() throws Exception {
        Dataset ds = prices();
        var missing = assertThrows(NoSuchFileException.class, () -> Arrowwood.open(folder.resolve("no.arrow")));
        assertTrue(missing.getMessage().contains("no.arrow"), missing.getMessage());
        assertThrows(IndexOutOfBoundsException.class, () -> ds.row(3));
        assertThrows(IllegalArgumentException.class, () -> ds.column("cost"));
        assertThrows(
                UnsupportedOperationException.class, () -> ds.column("symbol").sum());
    }
}
