package dev.arrowwood;

import static dev.arrowwood.ArrowwoodException.Code.BUSY;
import static dev.arrowwood.ArrowwoodException.Code.COLUMN_NOT_FOUND;
import static dev.arrowwood.ArrowwoodException.Code.INVALID_ARGUMENT;
import static dev.arrowwood.ArrowwoodException.Code.INVALID_DATA;
import static dev.arrowwood.ArrowwoodException.Code.NOT_FOUND;
import static dev.arrowwood.ArrowwoodException.Code.PERMISSION_DENIED;
import static dev.arrowwood.ArrowwoodException.Code.ROW_OUT_OF_RANGE;
import static dev.arrowwood.ArrowwoodException.Code.SCHEMA_MISMATCH;
import static dev.arrowwood.ArrowwoodException.Code.UNSUPPORTED;
import static dev.arrowwood.Condition.col;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.arrowwood.types.Field;
import dev.arrowwood.types.Type;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Tests that invalid arguments, files and rows end in an {@link ArrowwoodException}, and never crash the JVM. */
class BadInputTest {
    /** The depth of nested conditions that the library accepts. */
    private static final int MAX_DEPTH = 500;

    @TempDir
    Path folder;

    /** Asserts that a call throws an {@link ArrowwoodException} of a class and code with all words in its message. */
    private static <T extends Throwable> T assertFails(
            Class<T> type, ArrowwoodException.Code code, Executable call, String... words) {
        T failure = assertThrows(type, call);
        assertEquals(code, assertInstanceOf(ArrowwoodException.class, failure).code(), failure::toString);
        for (String word : words) {
            assertTrue(failure.getMessage().contains(word), failure::toString);
        }
        return failure;
    }

    @Test
    void repairRejectsFilesThatAreNotArrow() throws Exception {
        Path path = folder.resolve("prices.csv");
        String text = "symbol,price\nAAPL,1\n";
        Files.writeString(path, text);
        assertFails(
                IllegalArgumentException.class,
                INVALID_ARGUMENT,
                () -> Arrowwood.repair(path),
                "does not begin as an Arrow file");
        assertEquals(text, Files.readString(path));
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(List.of(path), files.toList());
        }
    }

    @Test
    void unreadableFilesAreReported() throws Exception {
        Path missing = folder.resolve("missing.arrow");
        assertFails(NoSuchFileException.class, NOT_FOUND, () -> Arrowwood.open(missing), "missing.arrow");
        assertFails(NoSuchFileException.class, NOT_FOUND, () -> Arrowwood.stat(missing), "missing.arrow");
        assertFails(NoSuchFileException.class, NOT_FOUND, () -> Arrowwood.check(missing), "missing.arrow");
        assertFails(NoSuchFileException.class, NOT_FOUND, () -> TableWriter.open(missing), "missing.arrow");
        assertFails(NoSuchFileException.class, NOT_FOUND, () -> Arrowwood.readCsv(missing), "missing.arrow");
        Path text = Files.writeString(folder.resolve("text.arrow"), "{\"rows\": []}");
        assertFails(
                RuntimeException.class, INVALID_DATA, () -> Arrowwood.open(text).rowCount(), "text.arrow");
        assertFails(
                RuntimeException.class,
                INVALID_DATA,
                () -> Arrowwood.openBytes(new byte[100]).rowCount());
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> Arrowwood.open(List.of()));
        Path numbers = Samples.writeNumbers(folder, 10);
        Path words = folder.resolve("words.arrow");
        Arrowwood.readCsv(Files.writeString(folder.resolve("words.csv"), "w\nx\n"))
                .write(words);
        assertFails(
                IllegalArgumentException.class,
                SCHEMA_MISMATCH,
                () -> Arrowwood.open(List.of(numbers, words)).rowCount());
        Path inMissingFolder = folder.resolve("none/file.arrow");
        assertFails(
                NoSuchFileException.class,
                NOT_FOUND,
                () -> Arrowwood.open(numbers).write(inMissingFolder),
                "none");
        assertThrows(NullPointerException.class, () -> Arrowwood.open((Path) null));
    }

    /** Returns an argument for a parameter of a type; it is the path, or contains it, if it can. */
    private static Object argument(Class<?> type, Path path) {
        Map<Class<?>, Object> arguments = Map.ofEntries(
                Map.entry(Path.class, path),
                Map.entry(List.class, List.of(path)),
                Map.entry(Schema.class, Schema.parse("n: int64")),
                Map.entry(Arena.class, Arena.global()),
                Map.entry(Progress.class, Progress.NONE),
                Map.entry(ReadOption[].class, new ReadOption[0]),
                Map.entry(WriteOptions.class, WriteOptions.FILE),
                Map.entry(WriterOptions.class, WriterOptions.DEFAULT),
                Map.entry(Arrowwood.CsvOptions.class, Arrowwood.CsvOptions.DEFAULT));
        assertTrue(arguments.containsKey(type), () -> "a method with a path has a parameter of " + type);
        return arguments.get(type);
    }

    /** Returns the public methods that have a path among their parameters. */
    private static List<Method> methodsWithPaths() {
        return Stream.of(Arrowwood.class, Dataset.class, TableWriter.class, Column.class, Schema.class, Follow.class)
                .flatMap(type -> Stream.of(type.getDeclaredMethods()))
                .filter(method -> Modifier.isPublic(method.getModifiers()))
                .filter(method -> Stream.of(method.getGenericParameterTypes())
                        .anyMatch(type -> type.getTypeName().contains("java.nio.file.Path")))
                .toList();
    }

    @Test
    void pathsOfOtherFileSystemsAreRefused() throws Exception {
        List<Method> methods = methodsWithPaths();
        assertTrue(methods.size() > 12, methods::toString);
        Dataset dataset = Arrowwood.open(Samples.writeNumbers(folder, 3));
        Path zip = folder.resolve("some.zip");
        try (FileSystem archive = FileSystems.newFileSystem(zip, Map.of("create", "true"))) {
            // A file of this name exists in the default file system, and must not be used instead.
            Path path = archive.getPath(folder.resolve("numbers3.arrow").toString());
            for (Method method : methods) {
                Object target = Modifier.isStatic(method.getModifiers()) ? null : dataset;
                Object[] arguments = Stream.of(method.getParameterTypes())
                        .map(type -> argument(type, path))
                        .toArray();
                assertFails(
                        IllegalArgumentException.class,
                        INVALID_ARGUMENT,
                        () -> invoke(method, target, arguments),
                        "numbers3.arrow",
                        "'jar'");
            }
        }
        try (Stream<Path> files = Files.list(folder)) {
            Set<String> names = files.map(file -> file.getFileName().toString()).collect(Collectors.toSet());
            names.remove("some.zip");
            assertEquals(Set.of("numbers.csv", "numbers3.arrow"), names);
        }
    }

    /** Calls a method, and throws what it throws. */
    private static void invoke(Method method, Object target, Object[] arguments) throws Throwable {
        try {
            method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    record Word(String word) {}

    @Test
    void loneSurrogatesAreRefused() throws Exception {
        Dataset dataset = Arrowwood.open(Samples.writeNumbers(folder, 3));
        Path csv = folder.resolve("numbers.csv");
        WriterOptions options = WriterOptions.DEFAULT;
        Schema schema = Schema.parse("word: utf8");
        Path neverCreated = folder.resolve("other");
        try (TableWriter writer = TableWriter.open(folder.resolve("words"), schema)) {
            for (String text :
                    List.of("\ud83c", "\udf32", "a?\ud83c", "\udf32\ud83c", "\ud83c\udf32\ud83c?", "??\udf32??")) {
                List<Executable> calls = List.of(
                        () -> writer.appendRow(text),
                        () -> writer.appendRow(new StringBuilder(text)),
                        () -> writer.appendRow(Optional.of(text)),
                        () -> writer.append(Map.of("word", text)),
                        () -> writer.append(new Word(text)),
                        () -> writer.commit(Map.of(text, 1L)),
                        () -> dataset.filter(col("word").eq(text)),
                        () -> dataset.filter(col("word").in("x", text)),
                        () -> dataset.filter(col(text).eq(1)),
                        () -> dataset.filter(col(text).isNull()),
                        () -> dataset.aggregate(List.of(text), Aggregate.count()),
                        () -> dataset.aggregate(List.of(), Aggregate.count().as(text)),
                        () -> dataset.aggregate(List.of(), Aggregate.sum(text)),
                        () -> dataset.select(text),
                        () -> Schema.parse(text + ": int64"),
                        () -> Schema.of(new Field(text, Type.INT64)),
                        () -> TableWriter.open(neverCreated, schema, options.sortedBy(text)),
                        () -> TableWriter.open(neverCreated, schema, options.index(text)),
                        () -> TableWriter.open(neverCreated, schema, options.dictionary(text)),
                        () -> Arrowwood.readCsv(csv, new Arrowwood.CsvOptions(Optional.empty(), List.of(text), ',')));
                for (Executable call : calls) {
                    assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, call, "lone surrogate");
                }
            }
            List<String> valid = List.of("", "?", "a?b", "ä?", "\ud83c\udf32", "?\ud83c\udf32?", "\ufffd");
            for (String text : valid) {
                writer.appendRow(text);
            }
            writer.commit();
            Dataset written = Arrowwood.open(folder.resolve("words"));
            assertEquals(valid, written.stream().map(row -> row.get(0)).toList());
            assertEquals(1, written.filter(col("word").eq("?\ud83c\udf32?")).rowCount());
        }
        assertTrue(Files.notExists(neverCreated));
        IllegalArgumentException failure = assertFails(
                IllegalArgumentException.class, INVALID_ARGUMENT, () -> dataset.select("\ud83c\udf32a\ud83c"));
        assertTrue(failure.getMessage().contains("index 3,"), failure.getMessage());
    }

    @Test
    void openReportsMissingPermission() throws Exception {
        Path unreadable = Samples.writeNumbers(folder, 10);
        Files.setPosixFilePermissions(unreadable, Set.of());
        assumeTrue(!Files.isReadable(unreadable), "root can read all files");
        assertFails(AccessDeniedException.class, PERMISSION_DENIED, () -> Arrowwood.open(unreadable), "numbers");
    }

    @Test
    void invalidRowsAndColumnsAreRefused() throws Exception {
        Dataset dataset = Arrowwood.open(Samples.writeNumbers(folder, 10));
        assertFails(IndexOutOfBoundsException.class, ROW_OUT_OF_RANGE, () -> dataset.row(10), "10");
        assertFails(IndexOutOfBoundsException.class, ROW_OUT_OF_RANGE, () -> dataset.row(-1));
        assertFails(IndexOutOfBoundsException.class, ROW_OUT_OF_RANGE, () -> dataset.take(3, 10), "10");
        assertFails(IndexOutOfBoundsException.class, ROW_OUT_OF_RANGE, () -> dataset.slice(-1, 1));
        assertFails(
                IndexOutOfBoundsException.class,
                ROW_OUT_OF_RANGE,
                () -> dataset.column("n").get(10));
        assertFails(
                IndexOutOfBoundsException.class,
                ROW_OUT_OF_RANGE,
                () -> dataset.column("n").asLong().get(10));
        assertFails(
                IndexOutOfBoundsException.class,
                ROW_OUT_OF_RANGE,
                () -> dataset.column("x").asDouble().get(-1));
        assertFails(IllegalArgumentException.class, COLUMN_NOT_FOUND, () -> dataset.column("m"), "'m'", "'word'");
        assertFails(IllegalArgumentException.class, COLUMN_NOT_FOUND, () -> dataset.column(3), "3");
        assertFails(IllegalArgumentException.class, COLUMN_NOT_FOUND, () -> dataset.column(-1));
        assertFails(IllegalArgumentException.class, COLUMN_NOT_FOUND, () -> dataset.select("n", "m"), "'m'");
        assertFails(IllegalArgumentException.class, COLUMN_NOT_FOUND, () -> dataset.select(0, -1), "-1");
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> dataset.select("n\0m"), "NUL");
        assertFails(
                UnsupportedOperationException.class,
                UNSUPPORTED,
                () -> dataset.column("word").sum());
        assertFails(
                UnsupportedOperationException.class,
                UNSUPPORTED,
                () -> dataset.column("word").asDouble(),
                "utf8");
        assertFails(
                UnsupportedOperationException.class,
                UNSUPPORTED,
                () -> dataset.column("x").asLong(),
                "float64");
        assertFails(
                IllegalArgumentException.class,
                INVALID_ARGUMENT,
                () -> dataset.column("x").quantile(1.5));
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> dataset.sample(11, 0));
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> dataset.between(1, 2));
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> dataset.follow(0));
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> Dataset.concat(List.of()));
        assertThrows(IllegalStateException.class, () -> dataset.row(0).getLong("word"));
        assertThrows(IndexOutOfBoundsException.class, () -> dataset.row(0).get(3));
    }

    @Test
    void invalidConditionsAreRefused() throws Exception {
        Dataset dataset = Arrowwood.open(Samples.writeNumbers(folder, 10));
        assertFails(IllegalArgumentException.class, COLUMN_NOT_FOUND, () -> dataset.filter(col("m").gt(1)), "'m'");
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> dataset.filter(col("n").gt("x")), "n");
        assertFails(
                IllegalArgumentException.class,
                INVALID_ARGUMENT,
                () -> dataset.filter(col("n").eq(new Object())),
                "Object");
        Condition nested = col("n").gt(1);
        // An even number of negations; one more reaches the maximum depth.
        for (int i = 0; i < MAX_DEPTH - 2; i++) {
            nested = nested.not();
        }
        assertEquals(8, dataset.filter(nested).rowCount());
        assertEquals(2, dataset.filter(nested.not()).rowCount());
        Condition deepest = nested.not();
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> deepest.not(), String.valueOf(MAX_DEPTH));
        assertEquals(0, dataset.filter(col("n").eq(null)).rowCount());
        assertEquals(0, dataset.filter(col("n").in()).rowCount());
    }

    record UnknownColumn(long n, String y) {}

    record ByteNumber(byte n) {}

    record ObjectComponent(Object inner) {}

    @Test
    void recordsThatDoNotFitAreRefused() throws Exception {
        Dataset dataset = Arrowwood.open(Samples.writeNumbers(folder, 1000));
        assertFails(IllegalArgumentException.class, COLUMN_NOT_FOUND, () -> dataset.stream(UnknownColumn.class), "'y'");
        assertFails(
                IllegalArgumentException.class,
                INVALID_ARGUMENT,
                () -> dataset.stream(ByteNumber.class).toList(),
                "ByteNumber",
                "128");
        assertFails(
                IllegalArgumentException.class, INVALID_ARGUMENT, () -> Schema.of(ObjectComponent.class), "'inner'");
    }

    @Test
    void invalidSchemasAreRefused() {
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> Schema.parse("n: inf64"), "inf64");
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> Schema.parse(""));
        assertFails(IllegalArgumentException.class, INVALID_ARGUMENT, () -> Schema.parse("n: int64, n: int64"), "'n'");
    }

    @Test
    void invalidRowsAreRefusedAndWriterContinues() throws Exception {
        Path path = folder.resolve("table");
        Schema schema = Schema.parse(
                "ts: timestamp[ms, UTC] not null, small: int8, price: decimal128(5, 2), day: date32, name: utf8");
        try (TableWriter writer = TableWriter.open(path, schema, WriterOptions.DEFAULT.sortedBy("ts"))) {
            Instant now = Instant.ofEpochMilli(1_000);
            writer.appendRow(now, 1, new BigDecimal("1.25"), LocalDate.EPOCH, "a");
            List<Executable> invalidCalls = List.of(
                    () -> writer.appendRow(now),
                    () -> writer.appendRow(now, 1, null, null, null, null),
                    () -> writer.appendRow(null, 1, null, null, null),
                    () -> writer.appendRow(now, 1000, null, null, null),
                    () -> writer.appendRow(now, "one", null, null, null),
                    () -> writer.appendRow(now, 1, new BigDecimal("1.255"), null, null),
                    () -> writer.appendRow(now, 1, new BigDecimal("123456.25"), null, null),
                    () -> writer.appendRow(now, 1, new BigDecimal(BigInteger.ONE.shiftLeft(300)), null, null),
                    () -> writer.appendRow(now, 1, null, LocalDate.MAX, null),
                    () -> writer.appendRow(Instant.MAX, 1, null, null, null),
                    () -> writer.appendRow(Instant.MIN, 1, null, null, null),
                    () -> writer.appendRow(Instant.EPOCH, 1, null, null, null),
                    () -> writer.appendRow(now, 1, null, null, 5),
                    () -> writer.appendRow(now, 1, null, null, List.of(1L)),
                    () -> writer.append(Map.of("ts", now, "other", 1)),
                    () -> writer.append(Map.of("small", 1)),
                    () -> writer.append(new ByteNumber((byte) 1)));
            for (Executable call : invalidCalls) {
                IllegalArgumentException failure = assertThrows(IllegalArgumentException.class, call);
                assertInstanceOf(ArrowwoodException.class, failure);
            }
            // No call left a part of its row, and the writer still works.
            writer.append(Map.of("ts", now.plusMillis(1)));
            assertEquals(2, writer.progress().rows());
            assertFails(IllegalStateException.class, BUSY, () -> TableWriter.open(path), "table");
            assertFails(IllegalStateException.class, BUSY, () -> Arrowwood.repair(path));
            writer.commit();
        }
        assertFails(
                IllegalArgumentException.class,
                SCHEMA_MISMATCH,
                () -> TableWriter.open(path, Schema.parse("n: int64")));
        assertFails(
                UnsupportedOperationException.class,
                UNSUPPORTED,
                () -> TableWriter.open(folder.resolve("other"), Schema.parse("n: run_end_encoded<int32, int8>")),
                "n");
        try (TableWriter lists = TableWriter.open(folder.resolve("lists"), Schema.parse("many: list<int64>"))) {
            assertFails(
                    IllegalArgumentException.class,
                    INVALID_ARGUMENT,
                    () -> lists.appendRow((Object) null),
                    "'many'",
                    "in batches");
        }
        assertEquals(2, Arrowwood.open(path).rowCount());
    }

    @Test
    void checkFindsDamageAndRepairMovesIt() throws Exception {
        Path path = folder.resolve("damaged");
        try (TableWriter writer =
                TableWriter.open(path, Schema.parse("n: int64 not null"), WriterOptions.DEFAULT.segmentRows(100))) {
            for (int n = 0; n < 1000; n++) {
                writer.appendRow(n);
            }
            writer.commit();
        }
        assertTrue(Arrowwood.check(path).isIntact());
        List<Path> segments;
        try (Stream<Path> files = Files.list(path)) {
            segments = files.filter(file -> file.toString().endsWith(".arrow"))
                    .sorted()
                    .toList();
        }
        Files.write(segments.get(5), new byte[100]);
        Report checked = Arrowwood.check(path);
        assertTrue(checked.damaged() > 0 && !checked.isIntact(), checked.toString());
        assertTrue(checked.findings().stream()
                .anyMatch(finding -> finding.isDamage() && !finding.message().isEmpty()));
        Report repaired = Arrowwood.repair(path);
        assertEquals(500, repaired.kept(), repaired.toString());
        assertTrue(repaired.moved().stream().allMatch(name -> name.contains(".damaged")), repaired.toString());
        assertTrue(Arrowwood.check(path).isIntact());
        assertEquals(500, Arrowwood.open(path).rowCount());
        assertEquals(500, Arrowwood.stat(path).end());
    }

    /**
     * Checks a file with a {@link Progress} that throws exceptions of several kinds. Prints a line for each kind:
     * whether the progress was called, and the number of rows.
     */
    static final class ThrowingProgress {
        public static void main(String[] arguments) throws Exception {
            List<Throwable> failures = List.of(
                    new IllegalStateException("the bar is closed"),
                    new AssertionError("done > total"),
                    new IOException("the terminal is gone"),
                    new StackOverflowError());
            for (Throwable failure : failures) {
                AtomicInteger callCount = new AtomicInteger();
                Report report = Arrowwood.check(Path.of(arguments[0]), (done, total) -> {
                    callCount.incrementAndGet();
                    ThrowingProgress.<RuntimeException>throwUnchecked(failure);
                });
                System.out.println((callCount.get() > 0) + " " + report.rows());
            }
        }

        /** Throws a checked exception without declaring it, as Kotlin and Scala do. */
        @SuppressWarnings("unchecked")
        private static <T extends Throwable> void throwUnchecked(Throwable failure) throws T {
            throw (T) failure;
        }
    }

    @Test
    void exceptionsOfProgressAreIgnored() throws Exception {
        Path numbers = Samples.writeNumbers(folder, 10);
        // Runs in another JVM, because an exception that reaches native code ends the process.
        List<String> command = Programs.javaCommand(ThrowingProgress.class, List.of(), numbers);
        assertEquals("true 10\n".repeat(4), Programs.run(command.toArray()));
    }

    @Test
    void fuzzedFilesOfArrowAreReadOrRefused() throws Exception {
        assumeTrue(Programs.arrowTestingFolder().isPresent(), "Arrow's fuzzed files are missing");
        int fileCount = 0;
        for (String name : List.of("fuzz-file", "fuzz-stream")) {
            List<Path> files;
            try (Stream<Path> list =
                    Files.list(Programs.arrowTestingFolder().get().resolve(name))) {
                files = list.toList();
            }
            for (Path file : files) {
                readOrFail(file);
                fileCount++;
            }
        }
        assertTrue(fileCount > 60, fileCount + " files");
    }

    /** Reads a file in all ways. Each may fail, but only with an {@link ArrowwoodException}. */
    private static void readOrFail(Path file) throws Exception {
        try {
            Dataset dataset = Arrowwood.open(file);
            runOrFail(() -> dataset.stream().limit(10_000).forEach(Row::toString));
            runOrFail(() -> dataset.display(10, 100));
            runOrFail(dataset::validate);
            for (Column column : dataset.columns()) {
                runOrFail(() -> column.nUnique());
                runOrFail(() -> decodeChunks(column));
            }
        } catch (Exception e) {
            assertInstanceOf(ArrowwoodException.class, e, file.toString());
        }
    }

    private static void runOrFail(Runnable read) {
        try {
            read.run();
        } catch (RuntimeException e) {
            assertInstanceOf(ArrowwoodException.class, e);
        }
    }

    /** Decodes chunks, whose offsets and keys are unchecked: the bounds of memory segments stop invalid ones. */
    private static void decodeChunks(Column column) {
        for (Chunk chunk : column.chunks()) {
            for (long row = 0; row < Math.min(chunk.rowCount(), 1000); row++) {
                try {
                    ChunkDecoder.decode(chunk, column.field().type(), row);
                } catch (IndexOutOfBoundsException | IllegalArgumentException | ArithmeticException e) {
                    return;
                }
            }
        }
    }
}
