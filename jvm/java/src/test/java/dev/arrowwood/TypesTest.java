package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.lang.foreign.MemorySegment;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Each type there is, by each way that Java has, against what Rust reads; and the table of docs/java.md. */
class TypesTest {
    private static final Path PAGE = Path.of(System.getProperty("arrowwood.docs"), "java.md");

    @TempDir
    static Path samples;

    private static JsonObject expected;

    @TempDir
    Path folder;

    @BeforeAll
    static void writeSamples() throws Exception {
        Programs.run(Programs.samples(), "write", samples);
        expected = JsonParser.parseString(Files.readString(samples.resolve("expected.json")))
                .getAsJsonObject();
    }

    private static void assertRows(JsonElement rows, JsonElement found, Object what) {
        assertTrue(Spelled.same(rows, found), () -> what + ": expected " + rows + ", got " + found);
    }

    /** All rows as rows, cell by cell, and by hand from the memory of the chunks. */
    private static void readInAllWays(Dataset dataset, JsonArray rows, Object what) {
        assertRows(rows, Spelled.rows(dataset), what + " by rows");
        assertRows(rows, cells(dataset), what + " by cells");
        for (ChunkOption[] options : new ChunkOption[][] {{}, {ChunkOption.CHECKED}, {ChunkOption.ALIGNED}}) {
            // Without columns there are no chunks.
            if (!dataset.columns().isEmpty()) {
                assertRows(rows, decoded(dataset, options), what + " by chunks " + List.of(options));
            }
        }
    }

    private static JsonArray cells(Dataset dataset) {
        JsonArray rows = new JsonArray();
        for (long row = 0; row < dataset.rowCount(); row++) {
            JsonArray cells = new JsonArray();
            for (Column column : dataset.columns()) {
                cells.add(Spelled.value(column.get(row), column.field().type()));
            }
            rows.add(cells);
        }
        return rows;
    }

    private static JsonArray decoded(Dataset dataset, ChunkOption... options) {
        JsonArray rows = new JsonArray();
        for (Column column : dataset.columns()) {
            int row = 0;
            for (Chunk chunk : column.chunks(options)) {
                assertEquals(row, chunk.firstRow());
                for (long i = 0; i < chunk.rowCount(); i++, row++) {
                    if (row == rows.size()) {
                        rows.add(new JsonArray());
                    }
                    rows.get(row)
                            .getAsJsonArray()
                            .add(Decoder.value(chunk, column.field().type(), i));
                }
            }
        }
        return rows;
    }

    @Test
    void samplesAreReadInAllWays() throws Exception {
        assertTrue(expected.size() > 400, "there are " + expected.size() + " samples");
        for (String name : expected.keySet()) {
            JsonArray rows = expected.getAsJsonObject(name).getAsJsonArray("rows");
            readInAllWays(Arrowwood.open(samples.resolve(name)), rows, name);
            readInAllWays(Arrowwood.openBytes(Files.readAllBytes(samples.resolve(name))), rows, name + " in memory");
        }
    }

    @Test
    void goldenFilesAreReadInAllWays() throws Exception {
        assumeTrue(Programs.golden().isPresent(), "Arrow's golden files are not here");
        try (Stream<Path> files = Files.walk(Programs.golden().get().resolve("golden"))) {
            for (Path file : (Iterable<Path>) files::iterator) {
                String name = file.getFileName().toString();
                String ending = name.endsWith(".arrow_file") ? ".arrow" : name.endsWith(".stream") ? ".stream" : null;
                if (ending != null) {
                    String stem = name.substring(0, name.lastIndexOf('.'));
                    Files.copy(file, folder.resolve(file.getParent().getFileName() + "-" + stem + ending));
                }
            }
        }
        int count = 0;
        for (String line :
                Programs.run(Programs.samples(), "read", folder).lines().toList()) {
            JsonObject file = JsonParser.parseString(line).getAsJsonObject();
            assertTrue(file.has("rows"), line);
            Path path = folder.resolve(file.get("file").getAsString());
            readInAllWays(Arrowwood.open(path), file.getAsJsonArray("rows"), path.getFileName());
            count++;
        }
        assertTrue(count > 80, count + " golden files");
    }

    // ---- the matrix ----

    @Test
    void theTableOfThePageIsTrue() throws Exception {
        Set<String> lines = new LinkedHashSet<>();
        lines.add("| Arrow | Java | read, in place | written | appended as a dataset | as a row |");
        lines.add("|---|---|---|---|---|---|");
        Map<String, String> rows = new LinkedHashMap<>();
        for (String name : expected.keySet()) {
            JsonObject sample = expected.getAsJsonObject(name);
            // Types have rows of their own; shapes of tables have none.
            Dataset dataset = Arrowwood.open(samples.resolve(name));
            if (name.endsWith("_plain.arrow") && isType(sample.get("sample").getAsString())) {
                rows.merge(
                        family(dataset.schema().fields().get(0).type()),
                        line(samples.resolve(name), sample),
                        (one, other) -> {
                            assertEquals(one, other, "of one family");
                            return one;
                        });
            }
        }
        rows.forEach((family, line) -> lines.add("| " + family + " " + line));
        assertTrue(rows.size() > 25, "types: " + rows.keySet());
        String table = String.join("\n", lines);
        assertTrue(Files.readString(PAGE).contains(table), () -> "docs/java.md lacks this table:\n" + table);
    }

    private static boolean isType(String sample) {
        try {
            Schema.parse("c: " + sample);
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /** Types that differ by a unit or by their width are one line. */
    private static String family(Type type) {
        return switch (type) {
            case Type.Int(int bits, boolean signed) -> signed ? "`int8` … `int64`" : "`uint8` … `uint64`";
            case Type.Floating(int bits) -> bits == 64 ? "`float64`" : "`float16`, `float32`";
            case Type.Decimal decimal -> "`decimal32` … `decimal256`";
            case Type.Timestamp(var unit, var zone) -> zone.isPresent() ? "`timestamp[…, zone]`" : "`timestamp[…]`";
            case Type.Time time -> "`time32`, `time64`";
            case Type.Duration duration -> "`duration`";
            case Type.Date date -> "`date32`, `date64`";
            case Type.Interval interval -> "`interval`";
            case Type.Text text when text.layout() != Type.Layout.VIEW -> "`utf8`, `large_utf8`";
            case Type.Binary binary when binary.layout() != Type.Layout.VIEW -> "`binary`, `large_binary`";
            case Type.FixedBinary binary -> "`fixed_size_binary`";
            case Type.ListOf list ->
                list.layout() == Type.ListLayout.NORMAL || list.layout() == Type.ListLayout.LARGE
                        ? "`list`, `large_list`"
                        : "`list_view`, `large_list_view`";
            case Type.FixedList list -> "`fixed_size_list`";
            case Type.Struct struct -> "`struct`";
            case Type.MapOf map -> "`map`";
            case Type.Union union -> "`sparse_union`, `dense_union`";
            case Type.Dictionary dictionary -> "`dictionary`, of " + name(dictionary.values());
            case Type.RunEndEncoded runs ->
                "`run_end_encoded`, of " + name(runs.values().type());
            default -> "`" + type + "`";
        };
    }

    private static String name(Type type) {
        return type instanceof Type.Int ? "integers" : "text";
    }

    private String line(Path file, JsonObject sample) throws Exception {
        JsonArray rows = sample.getAsJsonArray("rows");
        Dataset dataset = Arrowwood.open(file);
        String name = sample.get("sample").getAsString();
        return "| " + javaClass(dataset) + " | " + mark(isInPlace(file, dataset, rows)) + " | "
                + mark(isWritten(dataset, rows)) + " | " + mark(isAppended(name, dataset, rows, false)) + " | "
                + mark(isAppended(name, dataset, rows, true)) + " |";
    }

    private static String mark(boolean works) {
        return works ? "✓" : "–";
    }

    private static String javaClass(Dataset dataset) {
        Set<String> classes = new LinkedHashSet<>();
        Type type = Values.plain(dataset.schema().fields().get(0).type());
        dataset.stream().map(row -> row.get(0)).filter(cell -> cell != null).forEach(cell -> {
            boolean isNumber = cell instanceof Long || cell instanceof BigInteger;
            classes.add(
                    isNumber
                            ? type instanceof Type.Int(int bits, boolean signed) && !signed
                                    ? "`Long`, `BigInteger`"
                                    : "`Long`"
                            : cell instanceof List
                                    ? type instanceof Type.MapOf ? "`List<Map.Entry>`" : "`List`"
                                    : cell instanceof byte[]
                                            ? "`byte[]`"
                                            : "`" + cell.getClass().getSimpleName() + "`");
        });
        return classes.isEmpty() ? "null" : String.join(", ", classes);
    }

    /** Whether all rows come out in all ways, and all buffers lie in the mapped file. */
    private static boolean isInPlace(Path file, Dataset dataset, JsonArray rows) throws Exception {
        readInAllWays(dataset, rows, file.getFileName());
        List<long[]> mappings = mappings(file);
        assertTrue(!mappings.isEmpty(), "nothing is mapped of " + file.getFileName());
        return dataset.columns().get(0).chunks().stream()
                .flatMap(TypesTest::buffers)
                .allMatch(buffer -> mappings.stream()
                        .anyMatch(range ->
                                range[0] <= buffer.address() && buffer.address() + buffer.byteSize() <= range[1]));
    }

    private static Stream<MemorySegment> buffers(Chunk chunk) {
        List<MemorySegment> own =
                new ArrayList<>(List.of(chunk.values(), chunk.offsets(), chunk.sizes(), chunk.data()));
        chunk.validity().ifPresent(own::add);
        own.addAll(chunk.variadic());
        Stream<Chunk> below = Stream.concat(chunk.children().stream(), chunk.dictionary().stream());
        return Stream.concat(own.stream().filter(one -> one.byteSize() > 0), below.flatMap(TypesTest::buffers));
    }

    /** Where a file is mapped in this process. */
    private static List<long[]> mappings(Path file) throws Exception {
        String name = file.toRealPath().toString();
        return Files.readAllLines(Path.of("/proc/self/maps")).stream()
                .filter(line -> line.endsWith(name))
                .map(line -> Stream.of(line.split(" ")[0].split("-"))
                        .mapToLong(address -> Long.parseUnsignedLong(address, 16))
                        .toArray())
                .toList();
    }

    private boolean isWritten(Dataset dataset, JsonArray rows) throws Exception {
        for (WriteOptions options :
                List.of(WriteOptions.FILE, WriteOptions.STREAM.compressed(WriteOptions.Compression.ZSTD))) {
            Path written = folder.resolve("written");
            dataset.write(written, options);
            Dataset again = Arrowwood.open(written);
            assertEquals(dataset.schema(), again.schema());
            assertRows(rows, Spelled.rows(again), "written");
        }
        return true;
    }

    /** Whether a table takes the rows, as one dataset or value by value. */
    private boolean isAppended(String name, Dataset dataset, JsonArray rows, boolean byRow) throws Exception {
        Path table = folder.resolve(Integer.toHexString(name.hashCode()) + byRow);
        try (TableWriter writer = TableWriter.open(table, dataset.schema())) {
            if (byRow) {
                dataset.stream().forEach(row -> writer.appendRow(row.toArray()));
            } else {
                writer.append(dataset);
            }
            writer.commit();
        } catch (ArrowwoodException.Unsupported e) {
            assertTrue(e.getMessage().contains("c"), e.getMessage());
            return false;
        } catch (ArrowwoodException.InvalidArgument e) {
            boolean saysHow =
                    e.getMessage().contains("dataset") || e.getMessage().contains("in batches");
            assertTrue(byRow && saysHow, e.getMessage());
            return false;
        }
        assertRows(rows, Spelled.rows(Arrowwood.open(table)), "appended to a table");
        return true;
    }
}
