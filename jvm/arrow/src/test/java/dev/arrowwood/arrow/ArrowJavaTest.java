package dev.arrowwood.arrow;

import static org.junit.jupiter.api.Assertions.assertEquals;
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
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Vectors of Arrow Java over our memory, and our datasets over theirs; allocators notice what isn't released. */
class ArrowJavaTest {
    @TempDir
    Path folder;

    private Path numbers() throws Exception {
        Path csv = folder.resolve("numbers.csv");
        StringBuilder text = new StringBuilder("n,x,word\n");
        for (int n = 0; n < 1000; n++) {
            text.append(n)
                    .append(',')
                    .append(n)
                    .append(".5,word ")
                    .append(n % 10)
                    .append('\n');
        }
        Path file = folder.resolve("numbers.arrow");
        Arrowwood.readCsv(Files.writeString(csv, text)).write(file, WriteOptions.FILE.withMaxRows(300));
        return file;
    }

    @Test
    void vectorsLieInTheMappedFile() throws Exception {
        Path file = numbers();
        try (RootAllocator allocator = new RootAllocator();
                Arena arena = Arena.ofConfined()) {
            Dataset ds = Arrowwood.open(file, arena);
            List<Chunk> chunks = ds.column("x").chunks();
            double sum = 0;
            int batch = 0;
            try (ArrowReader reader = ArrowJava.reader(ds, allocator)) {
                while (reader.loadNextBatch()) {
                    VectorSchemaRoot root = reader.getVectorSchemaRoot();
                    Float8Vector x = (Float8Vector) root.getVector("x");
                    assertEquals(chunks.get(batch++).values().address(), x.getDataBufferAddress());
                    for (int row = 0; row < root.getRowCount(); row++) {
                        sum += x.get(row);
                    }
                    assertEquals("word 0", root.getVector("word").getObject(0).toString());
                }
            }
            assertEquals(4, batch);
            assertEquals(500_000, sum);
        }
    }

    @Test
    void aReaderOutlivesTheDataset() throws Exception {
        Path file = numbers();
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

    private VectorSchemaRoot root(RootAllocator allocator, int first) {
        BigIntVector n = new BigIntVector("n", allocator);
        VarCharVector word = new VarCharVector("word", allocator);
        for (int row = 0; row < 100; row++) {
            n.setSafe(row, first + row);
            if (row % 7 == 0) {
                word.setNull(row);
            } else {
                word.setSafe(row, ("word " + row).getBytes());
            }
        }
        n.setValueCount(100);
        word.setValueCount(100);
        return VectorSchemaRoot.of(n, word);
    }

    @Test
    void aRootIsADataset() {
        try (RootAllocator allocator = new RootAllocator();
                Arena arena = Arena.ofConfined()) {
            Dataset ds;
            try (VectorSchemaRoot root = root(allocator, 5)) {
                ds = ArrowJava.dataset(root, null, allocator, arena);
                assertEquals(
                        root.getVector("n").getDataBuffer().memoryAddress(),
                        ds.column("n").chunks().get(0).values().address());
            }
            // The root is closed; the rows are still there.
            assertEquals(100, ds.rowCount());
            assertEquals(5L * 100 + 4950, ds.column("n").sum());
            assertEquals("{n=6, word=word 1}", ds.row(1).toString());
            assertEquals(15, ds.column("word").nullCount());
        }
    }

    @Test
    void rootsAndReadersAreAppendedToTables() throws Exception {
        Path table = folder.resolve("table");
        try (RootAllocator allocator = new RootAllocator();
                TableWriter writer = TableWriter.open(table, Schema.parse("n: int64, word: utf8"))) {
            try (VectorSchemaRoot root = root(allocator, 0)) {
                ArrowJava.append(writer, root, null, allocator);
                writer.commit();
                // Rows that don't fit leave nothing behind, neither in the table nor in the allocator.
                try (VectorSchemaRoot other = VectorSchemaRoot.of(new BigIntVector("m", allocator))) {
                    other.setRowCount(0);
                    var failure = assertThrows(
                            IllegalArgumentException.class, () -> ArrowJava.append(writer, other, null, allocator));
                    assertTrue(failure instanceof ArrowwoodException, failure.toString());
                }
                Path file = folder.resolve("file.arrow");
                try (Arena arena = Arena.ofConfined()) {
                    ArrowJava.dataset(root, null, allocator, arena).write(file);
                }
                // Read by Arrow Java alone, appended by us.
                ArrowReader reader = new ArrowFileReader(Files.newByteChannel(file), allocator);
                ArrowJava.append(writer, reader, allocator);
                writer.commit();
            }
        }
        Dataset ds = Arrowwood.open(table);
        assertEquals(200, ds.rowCount());
        assertEquals(ds.row(13).asMap(), ds.row(113).asMap());
    }

    // ---- every type, there and back ----

    /** As text, because lists read their items when they are asked for. */
    private static List<String> rows(Dataset dataset) {
        return dataset.stream().map(Row::toString).toList();
    }

    @Test
    void samplesGoThereAndBack() throws Exception {
        Path samples = folder.resolve("samples");
        Process writer = new ProcessBuilder(
                        Path.of(System.getProperty("arrowwood.programs"), "examples/samples")
                                .toString(),
                        "write",
                        samples.toString())
                .inheritIO()
                .start();
        assertEquals(0, writer.waitFor());
        List<Path> files;
        try (Stream<Path> all = Files.list(samples)) {
            files = all.filter(path -> path.toString().endsWith("_plain.arrow"))
                    .sorted()
                    .toList();
        }
        Set<String> refused = new TreeSet<>();
        int same = 0;
        for (Path file : files) {
            Dataset before = Arrowwood.open(file);
            List<String> after = new ArrayList<>();
            try (RootAllocator allocator = new RootAllocator();
                    Arena arena = Arena.ofShared()) {
                after.addAll(rows(ArrowJava.dataset(ArrowJava.reader(before, allocator), allocator, arena)));
            } catch (RuntimeException e) {
                refused.add(before.schema() + ": " + e.getMessage());
                continue;
            }
            assertEquals(rows(before), after, file.getFileName().toString());
            same++;
        }
        assertEquals(80, same);
        // Arrow Java exports members of dense unions with too few rows, which is noticed.
        assertEquals(1, refused.size(), refused::toString);
        assertTrue(refused.toString().contains("dense_union"), refused::toString);
    }
}
