package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.arrowwood.internal.Values;
import dev.arrowwood.types.Type;
import java.io.IOException;
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

/**
 * Tests that values of all types are read and written, compared with what the Rust library reads; and that the table of
 * types in docs/java.md is right.
 */
class TypesTest {
    private static final Path PAGE = Path.of(System.getProperty("arrowwood.docs"), "java.md");

    @TempDir
    static Path samplesFolder;

    /** The rows and the type of each sample by file name, as the Rust library reads them. */
    private static JsonObject expectedSamples;

    @TempDir
    Path folder;

    @BeforeAll
    static void writeSamples() throws Exception {
        Programs.run(Programs.samples(), "write", samplesFolder);
        expectedSamples = JsonParser.parseString(Files.readString(samplesFolder.resolve("expected.json")))
                .getAsJsonObject();
    }

    private static void assertRows(JsonElement expected, JsonElement actual, Object description) {
        assertTrue(
                CanonicalJson.areEqual(expected, actual),
                () -> description + ": expected " + expected + ", got " + actual);
    }

    /** Reads a dataset by rows, by cells and by decoding its chunks. */
    private static void assertReadable(Dataset dataset, JsonArray expected, Object description) {
        assertRows(expected, CanonicalJson.encodeRows(dataset), description + " by rows");
        assertRows(expected, readCells(dataset), description + " by cells");
        if (dataset.columns().isEmpty()) {
            // Without columns there are no chunks to decode.
            return;
        }
        for (ChunkOption[] options : new ChunkOption[][] {{}, {ChunkOption.CHECKED}, {ChunkOption.ALIGNED}}) {
            assertRows(expected, decodeChunks(dataset, options), description + " by chunks " + List.of(options));
        }
    }

    private static JsonArray readCells(Dataset dataset) {
        JsonArray rows = new JsonArray();
        for (long row = 0; row < dataset.rowCount(); row++) {
            JsonArray cells = new JsonArray();
            for (Column column : dataset.columns()) {
                cells.add(CanonicalJson.encode(column.get(row), column.field().type()));
            }
            rows.add(cells);
        }
        return rows;
    }

    private static JsonArray decodeChunks(Dataset dataset, ChunkOption... options) {
        JsonArray rows = new JsonArray();
        for (Column column : dataset.columns()) {
            int row = 0;
            for (Chunk chunk : column.chunks(options)) {
                assertEquals(row, chunk.firstRow());
                for (long i = 0; i < chunk.rowCount(); i++) {
                    if (row == rows.size()) {
                        rows.add(new JsonArray());
                    }
                    JsonElement cell = ChunkDecoder.decode(chunk, column.field().type(), i);
                    rows.get(row).getAsJsonArray().add(cell);
                    row++;
                }
            }
        }
        return rows;
    }

    @Test
    void samplesAreReadByRowsCellsAndChunks() throws Exception {
        assertTrue(expectedSamples.size() > 400, "there are " + expectedSamples.size() + " samples");
        for (String name : expectedSamples.keySet()) {
            JsonArray rows = expectedSamples.getAsJsonObject(name).getAsJsonArray("rows");
            Path file = samplesFolder.resolve(name);
            assertReadable(Arrowwood.open(file), rows, name);
            assertReadable(Arrowwood.openBytes(Files.readAllBytes(file)), rows, name + " in memory");
        }
    }

    @Test
    void goldenFilesAreReadByRowsCellsAndChunks() throws Exception {
        assumeTrue(Programs.arrowTestingFolder().isPresent(), "Arrow's golden files are missing");
        copyGoldenFiles(Programs.arrowTestingFolder().get().resolve("golden"), folder);
        int fileCount = 0;
        for (String line :
                Programs.run(Programs.samples(), "read", folder).lines().toList()) {
            JsonObject file = JsonParser.parseString(line).getAsJsonObject();
            assertTrue(file.has("rows"), line);
            Path path = folder.resolve(file.get("file").getAsString());
            assertReadable(Arrowwood.open(path), file.getAsJsonArray("rows"), path.getFileName());
            fileCount++;
        }
        assertTrue(fileCount > 80, fileCount + " golden files");
    }

    /** Copies Arrow files and streams from subfolders to one folder, with the extensions that Arrowwood knows. */
    private static void copyGoldenFiles(Path source, Path target) throws IOException {
        List<Path> files;
        try (Stream<Path> walk = Files.walk(source)) {
            files = walk.toList();
        }
        for (Path file : files) {
            String name = file.getFileName().toString();
            String extension;
            if (name.endsWith(".arrow_file")) {
                extension = ".arrow";
            } else if (name.endsWith(".stream")) {
                extension = ".stream";
            } else {
                continue;
            }
            String stem = name.substring(0, name.lastIndexOf('.'));
            Files.copy(file, target.resolve(file.getParent().getFileName() + "-" + stem + extension));
        }
    }

    // ---- the table of docs/java.md ----

    @Test
    void tableOfTypesInTheDocsIsRight() throws Exception {
        Map<String, String> cellsByFamily = new LinkedHashMap<>();
        for (String name : expectedSamples.keySet()) {
            JsonObject sample = expectedSamples.getAsJsonObject(name);
            if (!name.endsWith("_plain.arrow") || !isType(sample.get("sample").getAsString())) {
                continue;
            }
            Path file = samplesFolder.resolve(name);
            Type type = Arrowwood.open(file).schema().fields().get(0).type();
            String cells = tableCells(file, sample);
            String previous = cellsByFamily.putIfAbsent(familyName(type), cells);
            if (previous != null) {
                assertEquals(previous, cells, "types of one line differ");
            }
        }
        assertTrue(cellsByFamily.size() > 25, "types: " + cellsByFamily.keySet());
        List<String> lines = new ArrayList<>();
        lines.add("| Arrow | Java | read, in place | written | appended as a dataset | as a row |");
        lines.add("|---|---|---|---|---|---|");
        cellsByFamily.forEach((family, cells) -> lines.add("| " + family + " " + cells));
        String table = String.join("\n", lines);
        assertTrue(Files.readString(PAGE).contains(table), () -> "docs/java.md lacks this table:\n" + table);
    }

    /** Returns true if a sample is named for a type; others are named for the shape of their table. */
    private static boolean isType(String sampleName) {
        try {
            Schema.parse("c: " + sampleName);
            return true;
        } catch (IllegalArgumentException e) {
            return false;
        }
    }

    /** Returns the name of a type in the table, where types that differ by unit or width share a line. */
    private static String familyName(Type type) {
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
            case Type.Dictionary dictionary -> "`dictionary`, of " + valuesName(dictionary.values());
            case Type.RunEndEncoded runs ->
                "`run_end_encoded`, of " + valuesName(runs.values().type());
            default -> "`" + type + "`";
        };
    }

    private static String valuesName(Type type) {
        return type instanceof Type.Int ? "integers" : "text";
    }

    /** Returns the cells of a sample's line after the name of its type. */
    private String tableCells(Path file, JsonObject sample) throws Exception {
        JsonArray rows = sample.getAsJsonArray("rows");
        Dataset dataset = Arrowwood.open(file);
        String name = sample.get("sample").getAsString();
        assertReadable(dataset, rows, file.getFileName());
        assertWritable(dataset, rows);
        return String.join(
                " | ",
                "| " + classNames(dataset),
                mark(isInPlace(file, dataset)),
                mark(true), // assertWritable fails if a type cannot be written
                mark(canAppend(name, dataset, rows, false)),
                mark(canAppend(name, dataset, rows, true)) + " |");
    }

    private static String mark(boolean works) {
        return works ? "✓" : "–";
    }

    /** Returns the Java classes of a dataset's cells, as in the table. */
    private static String classNames(Dataset dataset) {
        Type type = Values.valueType(dataset.schema().fields().get(0).type());
        Set<String> names = new LinkedHashSet<>();
        for (Row row : dataset) {
            Object cell = row.get(0);
            if (cell != null) {
                names.add(className(cell, type));
            }
        }
        return names.isEmpty() ? "null" : String.join(", ", names);
    }

    private static String className(Object cell, Type type) {
        if (cell instanceof Long || cell instanceof BigInteger) {
            boolean isUnsigned = type instanceof Type.Int(int bits, boolean signed) && !signed;
            return isUnsigned ? "`Long`, `BigInteger`" : "`Long`";
        }
        if (cell instanceof List) {
            return type instanceof Type.MapOf ? "`List<Map.Entry>`" : "`List`";
        }
        return "`" + cell.getClass().getSimpleName() + "`";
    }

    /** Returns true if all buffers of the first column lie in the mapped file. */
    private static boolean isInPlace(Path file, Dataset dataset) throws IOException {
        List<AddressRange> mappings = mappings(file);
        assertFalse(mappings.isEmpty(), () -> file.getFileName() + " isn't mapped");
        return dataset.columns().get(0).chunks().stream()
                .flatMap(TypesTest::buffers)
                .allMatch(buffer -> mappings.stream().anyMatch(mapping -> mapping.contains(buffer)));
    }

    /** Returns the buffers of a chunk and its children that aren't empty. */
    private static Stream<MemorySegment> buffers(Chunk chunk) {
        List<MemorySegment> buffers =
                new ArrayList<>(List.of(chunk.values(), chunk.offsets(), chunk.sizes(), chunk.data()));
        chunk.validity().ifPresent(buffers::add);
        buffers.addAll(chunk.variadic());
        Stream<Chunk> children = Stream.concat(chunk.children().stream(), chunk.dictionary().stream());
        return Stream.concat(
                buffers.stream().filter(buffer -> buffer.byteSize() > 0), children.flatMap(TypesTest::buffers));
    }

    private record AddressRange(long start, long end) {
        boolean contains(MemorySegment buffer) {
            return start <= buffer.address() && buffer.address() + buffer.byteSize() <= end;
        }
    }

    /** Returns the addresses at which a file is mapped in this process. */
    private static List<AddressRange> mappings(Path file) throws IOException {
        String path = file.toRealPath().toString();
        List<AddressRange> mappings = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
            if (line.endsWith(path)) {
                String[] addresses = line.split(" ")[0].split("-");
                mappings.add(new AddressRange(
                        Long.parseUnsignedLong(addresses[0], 16), Long.parseUnsignedLong(addresses[1], 16)));
            }
        }
        return mappings;
    }

    private void assertWritable(Dataset dataset, JsonArray rows) throws Exception {
        for (WriteOptions options :
                List.of(WriteOptions.FILE, WriteOptions.STREAM.compressed(WriteOptions.Compression.ZSTD))) {
            Path file = folder.resolve("written");
            dataset.write(file, options);
            Dataset copy = Arrowwood.open(file);
            assertEquals(dataset.schema(), copy.schema());
            assertRows(rows, CanonicalJson.encodeRows(copy), "written");
        }
    }

    /** Appends rows to a table, as one dataset or one by one; returns false if the type is refused with advice. */
    private boolean canAppend(String name, Dataset dataset, JsonArray rows, boolean byRow) throws Exception {
        Path table = folder.resolve(Integer.toHexString(name.hashCode()) + byRow);
        try (TableWriter writer = TableWriter.open(table, dataset.schema())) {
            if (byRow) {
                dataset.stream().forEach(row -> writer.appendRow(row.toArray()));
            } else {
                writer.append(dataset);
            }
            writer.commit();
        } catch (ArrowwoodException.Unsupported e) {
            // The column is called "c".
            assertTrue(e.getMessage().contains("c"), e.getMessage());
            return false;
        } catch (ArrowwoodException.InvalidArgument e) {
            boolean namesAlternative =
                    e.getMessage().contains("dataset") || e.getMessage().contains("in batches");
            assertTrue(byRow && namesAlternative, e.getMessage());
            return false;
        }
        assertRows(rows, CanonicalJson.encodeRows(Arrowwood.open(table)), "appended to a table");
        return true;
    }
}
