package dev.arrowwood.arrow;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.arrowwood.Arrowwood;
import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.Chunk;
import dev.arrowwood.Dataset;
import dev.arrowwood.Row;
import dev.arrowwood.Schema;
import dev.arrowwood.TableWriter;
import dev.arrowwood.WriteOptions;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.dictionary.DictionaryProvider;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.DictionaryEncoding;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests the exchange of data with Arrow Java in both directions, without copies.
 *
 * <p>Closing an allocator fails if a buffer wasn't released.
 */
class ArrowJavaTest {
    // The file of writeNumbers.
    private static final int ROW_COUNT = 1_000;
    private static final int BATCH_ROWS = 300;

    /** The number of rows of {@link #newRoot}. */
    private static final int ROOT_ROWS = 100;

    /** In {@link #newRoot}, a word is null in each row whose number is a multiple of this. */
    private static final int NULL_INTERVAL = 7;

    /** Roots without encoded vectors need no dictionaries. */
    private static final DictionaryProvider NO_DICTIONARIES = null;

    @TempDir
    Path folder;

    /** Writes a file of {@code n}, which counts from 0, {@code x}, which is {@code n + 0.5}, and ten words. */
    private Path writeNumbers() throws Exception {
        Path csv = folder.resolve("numbers.csv");
        StringBuilder text = new StringBuilder("n,x,word\n");
        for (int n = 0; n < ROW_COUNT; n++) {
            text.append(n)
                    .append(',')
                    .append(n)
                    .append(".5,word ")
                    .append(n % 10)
                    .append('\n');
        }
        Path file = folder.resolve("numbers.arrow");
        Arrowwood.readCsv(Files.writeString(csv, text)).write(file, WriteOptions.FILE.withMaxRows(BATCH_ROWS));
        return file;
    }

    /** Returns a root of {@code n}, which counts from a number on, and {@code word}, with nulls. */
    private VectorSchemaRoot newRoot(RootAllocator allocator, int firstNumber) {
        BigIntVector n = new BigIntVector("n", allocator);
        VarCharVector word = new VarCharVector("word", allocator);
        for (int row = 0; row < ROOT_ROWS; row++) {
            n.setSafe(row, firstNumber + row);
            if (row % NULL_INTERVAL == 0) {
                word.setNull(row);
            } else {
                word.setSafe(row, ("word " + row).getBytes(StandardCharsets.UTF_8));
            }
        }
        n.setValueCount(ROOT_ROWS);
        word.setValueCount(ROOT_ROWS);
        return VectorSchemaRoot.of(n, word);
    }

    /** Returns rows as text, which contains the items of lists: they are read only on access. */
    private static List<String> toStrings(Dataset dataset) {
        return dataset.stream().map(Row::toString).toList();
    }

    /** Writes a file for each type, and returns the files without variants of their encoding. */
    private static List<Path> writeSamples(Path samplesFolder) throws Exception {
        Path program = Path.of(System.getProperty("arrowwood.programs"), "examples/samples");
        Process process = new ProcessBuilder(program.toString(), "write", samplesFolder.toString())
                .inheritIO()
                .start();
        assertEquals(0, process.waitFor());
        try (Stream<Path> files = Files.list(samplesFolder)) {
            return files.filter(path -> path.toString().endsWith("_plain.arrow"))
                    .sorted()
                    .toList();
        }
    }

    @Test
    void vectorsOfReaderLieInTheMappedFile() throws Exception {
        Path file = writeNumbers();
        try (RootAllocator allocator = new RootAllocator();
                Arena arena = Arena.ofConfined()) {
            Dataset dataset = Arrowwood.open(file, arena);
            List<Chunk> chunks = dataset.column("x").chunks();
            double sum = 0;
            int batchCount = 0;
            try (ArrowReader reader = ArrowJava.reader(dataset, allocator)) {
                while (reader.loadNextBatch()) {
                    VectorSchemaRoot root = reader.getVectorSchemaRoot();
                    Float8Vector x = (Float8Vector) root.getVector("x");
                    assertEquals(chunks.get(batchCount).values().address(), x.getDataBufferAddress());
                    for (int row = 0; row < root.getRowCount(); row++) {
                        sum += x.get(row);
                    }
                    assertEquals("word 0", root.getVector("word").getObject(0).toString());
                    batchCount++;
                }
            }
            // 300 + 300 + 300 + 100 rows.
            assertEquals(4, batchCount);
            // 0.5 + 1.5 + … + 999.5.
            assertEquals(500_000, sum);
        }
    }

    @Test
    void readerOutlivesArenaOfDataset() throws Exception {
        Path file = writeNumbers();
        try (RootAllocator allocator = new RootAllocator()) {
            ArrowReader reader;
            try (Arena arena = Arena.ofConfined()) {
                reader = ArrowJava.reader(Arrowwood.open(file, arena), allocator);
            }
            try (reader) {
                assertTrue(reader.loadNextBatch());
                assertEquals(7L, reader.getVectorSchemaRoot().getVector("n").getObject(7));
            }
        }
    }

    @Test
    void datasetSharesVectorsOfRootAndOutlivesIt() {
        try (RootAllocator allocator = new RootAllocator();
                Arena arena = Arena.ofConfined()) {
            Dataset dataset;
            try (VectorSchemaRoot root = newRoot(allocator, 5)) {
                dataset = ArrowJava.dataset(root, NO_DICTIONARIES, allocator, arena);
                assertEquals(
                        root.getVector("n").getDataBuffer().memoryAddress(),
                        dataset.column("n").chunks().get(0).values().address());
            }
            assertEquals(ROOT_ROWS, dataset.rowCount());
            // 5 + 6 + … + 104.
            assertEquals(5_450L, dataset.column("n").sum());
            assertEquals("{n=6, word=word 1}", dataset.row(1).toString());
            // Rows 0, 7, … 98.
            assertEquals(15, dataset.column("word").nullCount());
        }
    }

    @Test
    void failedExportLeavesNoBufferInTheAllocator() {
        FieldType encoded =
                new FieldType(true, new ArrowType.Int(Integer.SIZE, true), new DictionaryEncoding(1, false, null));
        try (RootAllocator allocator = new RootAllocator();
                Arena arena = Arena.ofConfined();
                VectorSchemaRoot root = VectorSchemaRoot.of(new IntVector("key", encoded, allocator))) {
            // Arrow Java doesn't expect that the keys' dictionary is missing.
            DictionaryProvider noDictionaries = new DictionaryProvider.MapDictionaryProvider();
            assertThrows(NullPointerException.class, () -> ArrowJava.dataset(root, noDictionaries, allocator, arena));
        }
    }

    @Test
    void rootsAndReadersAreAppendedToTables() throws Exception {
        Path table = folder.resolve("table");
        try (RootAllocator allocator = new RootAllocator();
                TableWriter writer = TableWriter.open(table, Schema.parse("n: int64, word: utf8"))) {
            try (VectorSchemaRoot root = newRoot(allocator, 0)) {
                ArrowJava.append(writer, root, NO_DICTIONARIES, allocator);
                writer.commit();
                // Refused rows leave nothing in the table, and no buffer in the allocator.
                try (VectorSchemaRoot unknownColumn = VectorSchemaRoot.of(new BigIntVector("m", allocator))) {
                    unknownColumn.setRowCount(0);
                    IllegalArgumentException failure = assertThrows(
                            IllegalArgumentException.class,
                            () -> ArrowJava.append(writer, unknownColumn, NO_DICTIONARIES, allocator));
                    assertInstanceOf(ArrowwoodException.class, failure);
                }
                Path file = folder.resolve("file.arrow");
                try (Arena arena = Arena.ofConfined()) {
                    ArrowJava.dataset(root, NO_DICTIONARIES, allocator, arena).write(file);
                }
                // A reader of Arrow Java's own; append closes it.
                ArrowReader reader = new ArrowFileReader(Files.newByteChannel(file), allocator);
                ArrowJava.append(writer, reader, allocator);
                writer.commit();
            }
        }
        Dataset dataset = Arrowwood.open(table);
        assertEquals(2 * ROOT_ROWS, dataset.rowCount());
        assertEquals(dataset.row(13).asMap(), dataset.row(ROOT_ROWS + 13).asMap());
    }

    @Test
    void samplesOfAllTypesRoundTrip() throws Exception {
        List<Path> files = writeSamples(folder.resolve("samples"));
        Set<String> refused = new TreeSet<>();
        int equalCount = 0;
        for (Path file : files) {
            Dataset original = Arrowwood.open(file);
            List<String> roundTripped;
            try (RootAllocator allocator = new RootAllocator();
                    Arena arena = Arena.ofShared()) {
                // The import closes the reader, even if it fails: else closing the allocator would.
                ArrowReader reader = ArrowJava.reader(original, allocator);
                roundTripped = toStrings(ArrowJava.dataset(reader, allocator, arena));
            } catch (ArrowwoodException.InvalidData e) {
                refused.add(original.schema() + ": " + e.getMessage());
                continue;
            }
            assertEquals(toStrings(original), roundTripped, file.getFileName().toString());
            equalCount++;
        }
        // Arrow Java exports members of dense unions with too few rows, and Arrowwood refuses them.
        assertEquals(1, refused.size(), refused::toString);
        assertTrue(refused.toString().contains("dense_union"), refused::toString);
        assertEquals(files.size() - refused.size(), equalCount);
        assertTrue(equalCount > 0, "there are no samples");
    }
}
