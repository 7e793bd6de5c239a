package dev.arrowwood;

import static dev.arrowwood.Condition.col;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

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

/** What can't work is an exception of one family that says what to do, and the JVM lives on. */
class BadInputTest {
    @TempDir
    Path folder;

    /** Fails as a class of the JDK and of ours, with a message that has all these words. */
    private static <T extends Throwable> T fails(
            Class<T> type, ArrowwoodException.Code code, Executable work, String... words) {
        T failure = assertThrows(type, work);
        assertEquals(code, assertInstanceOf(ArrowwoodException.class, failure).code(), failure::toString);
        for (String word : words) {
            assertTrue(failure.getMessage().contains(word), failure::toString);
        }
        return failure;
    }

    @Test
    void repairLeavesWhatIsNoArrowData() throws Exception {
        Path path = folder.resolve("prices.csv");
        String text = "symbol,price\nAAPL,1\n";
        Files.writeString(path, text);
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> Arrowwood.repair(path),
                "does not begin as an Arrow file");
        assertEquals(text, Files.readString(path));
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(List.of(path), files.toList());
        }
    }

    @Test
    void files() throws Exception {
        Path missing = folder.resolve("missing.arrow");
        fails(
                NoSuchFileException.class,
                ArrowwoodException.Code.NOT_FOUND,
                () -> Arrowwood.open(missing),
                "missing.arrow");
        fails(
                NoSuchFileException.class,
                ArrowwoodException.Code.NOT_FOUND,
                () -> Arrowwood.stat(missing),
                "missing.arrow");
        fails(
                NoSuchFileException.class,
                ArrowwoodException.Code.NOT_FOUND,
                () -> Arrowwood.check(missing),
                "missing.arrow");
        fails(
                NoSuchFileException.class,
                ArrowwoodException.Code.NOT_FOUND,
                () -> TableWriter.open(missing),
                "missing.arrow");
        fails(
                NoSuchFileException.class,
                ArrowwoodException.Code.NOT_FOUND,
                () -> Arrowwood.readCsv(missing),
                "missing.arrow");
        Path text = Files.writeString(folder.resolve("text.arrow"), "{\"rows\": []}");
        fails(
                RuntimeException.class,
                ArrowwoodException.Code.INVALID_DATA,
                () -> Arrowwood.open(text).rowCount(),
                "text.arrow");
        fails(
                RuntimeException.class,
                ArrowwoodException.Code.INVALID_DATA,
                () -> Arrowwood.openBytes(new byte[100]).rowCount());
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> Arrowwood.open(List.of()));
        Path numbers = Samples.numbers(folder, 10);
        Path words = Files.writeString(folder.resolve("words.csv"), "w\nx\n");
        Arrowwood.readCsv(words).write(folder.resolve("words.arrow"));
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.SCHEMA_MISMATCH,
                () -> Arrowwood.open(List.of(numbers, folder.resolve("words.arrow")))
                        .rowCount());
        Path nowhere = folder.resolve("none/file.arrow");
        fails(
                NoSuchFileException.class,
                ArrowwoodException.Code.NOT_FOUND,
                () -> Arrowwood.open(numbers).write(nowhere),
                "none");
        assertThrows(NullPointerException.class, () -> Arrowwood.open((Path) null));
    }

    /** Something to pass for a parameter, a path everywhere where one can be. */
    private static Object argument(Class<?> type, Path path) {
        Map<Class<?>, Object> known = Map.of(
                Path.class,
                path,
                List.class,
                List.of(path),
                Schema.class,
                Schema.parse("n: int64"),
                Arena.class,
                Arena.global(),
                Progress.class,
                Progress.NONE,
                ReadOption[].class,
                new ReadOption[0],
                WriteOptions.class,
                WriteOptions.FILE,
                WriterOptions.class,
                WriterOptions.DEFAULT,
                Arrowwood.CsvOptions.class,
                Arrowwood.CsvOptions.DEFAULT);
        assertTrue(known.containsKey(type), () -> "a method with a path takes a " + type);
        return known.get(type);
    }

    /** The public methods with a path among their parameters. */
    private static List<Method> methodsOfPaths() {
        return Stream.of(Arrowwood.class, Dataset.class, TableWriter.class, Column.class, Schema.class, Follow.class)
                .flatMap(type -> Stream.of(type.getDeclaredMethods()))
                .filter(method -> Modifier.isPublic(method.getModifiers()))
                .filter(method -> Stream.of(method.getGenericParameterTypes())
                        .anyMatch(type -> type.getTypeName().contains("java.nio.file.Path")))
                .toList();
    }

    @Test
    void pathsOfOtherFileSystemsAreRefused() throws Exception {
        List<Method> methods = methodsOfPaths();
        assertTrue(methods.size() > 12, methods::toString);
        Dataset ds = Arrowwood.open(Samples.numbers(folder, 3));
        Path zip = folder.resolve("some.zip");
        try (FileSystem archive = FileSystems.newFileSystem(zip, Map.of("create", "true"))) {
            // The same name is a file of the system's.
            Path path = archive.getPath(folder.resolve("numbers3.arrow").toString());
            for (Method method : methods) {
                Object[] arguments = Stream.of(method.getParameterTypes())
                        .map(type -> argument(type, path))
                        .toArray();
                fails(
                        IllegalArgumentException.class,
                        ArrowwoodException.Code.INVALID_ARGUMENT,
                        () -> {
                            try {
                                method.invoke(Modifier.isStatic(method.getModifiers()) ? null : ds, arguments);
                            } catch (InvocationTargetException e) {
                                throw e.getCause();
                            }
                        },
                        "numbers3.arrow",
                        "'jar'");
            }
        }
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(
                    Set.of("numbers.csv", "numbers3.arrow"),
                    files.map(file -> file.getFileName().toString())
                            .filter(name -> !name.equals("some.zip"))
                            .collect(Collectors.toSet()));
        }
    }

    record Word(String word) {}

    @Test
    void halfCharactersAreRefusedWhereverTextGoes() throws Exception {
        Dataset ds = Arrowwood.open(Samples.numbers(folder, 3));
        Path csv = folder.resolve("numbers.csv");
        WriterOptions options = WriterOptions.DEFAULT;
        Schema schema = Schema.parse("word: utf8");
        Path other = folder.resolve("other");
        try (TableWriter writer = TableWriter.open(folder.resolve("words"), schema)) {
            for (String half :
                    List.of("\ud83c", "\udf32", "a?\ud83c", "\udf32\ud83c", "\ud83c\udf32\ud83c?", "??\udf32??")) {
                List<Executable> ways = List.of(
                        () -> writer.appendRow(half),
                        () -> writer.appendRow(new StringBuilder(half)),
                        () -> writer.appendRow(Optional.of(half)),
                        () -> writer.append(Map.of("word", half)),
                        () -> writer.append(new Word(half)),
                        () -> writer.commit(Map.of(half, 1L)),
                        () -> ds.filter(col("word").eq(half)),
                        () -> ds.filter(col("word").in("x", half)),
                        () -> ds.filter(col(half).eq(1)),
                        () -> ds.filter(col(half).isNull()),
                        () -> ds.aggregate(List.of(half), Aggregate.count()),
                        () -> ds.aggregate(List.of(), Aggregate.count().as(half)),
                        () -> ds.aggregate(List.of(), Aggregate.sum(half)),
                        () -> ds.select(half),
                        () -> Schema.parse(half + ": int64"),
                        () -> Schema.of(new Field(half, Type.INT64)),
                        () -> TableWriter.open(other, schema, options.sortedBy(half)),
                        () -> TableWriter.open(other, schema, options.index(half)),
                        () -> TableWriter.open(other, schema, options.dictionary(half)),
                        () -> Arrowwood.readCsv(csv, new Arrowwood.CsvOptions(Optional.empty(), List.of(half), ',')));
                for (Executable way : ways) {
                    fails(
                            IllegalArgumentException.class,
                            ArrowwoodException.Code.INVALID_ARGUMENT,
                            way,
                            "lone surrogate");
                }
            }
            List<String> whole = List.of("", "?", "a?b", "ä?", "\ud83c\udf32", "?\ud83c\udf32?", "\ufffd");
            for (String text : whole) {
                writer.appendRow(text);
            }
            writer.commit();
            Dataset written = Arrowwood.open(folder.resolve("words"));
            assertEquals(whole, written.stream().map(row -> row.get(0)).toList());
            assertEquals(1, written.filter(col("word").eq("?\ud83c\udf32?")).rowCount());
        }
        assertTrue(Files.notExists(other));
        assertEquals(
                "3",
                fails(
                                IllegalArgumentException.class,
                                ArrowwoodException.Code.INVALID_ARGUMENT,
                                () -> ds.select("\ud83c\udf32a\ud83c"))
                        .getMessage()
                        .replaceAll(".*index (\\d+),.*", "$1"));
    }

    @Test
    void permissions() throws Exception {
        Path secret = Samples.numbers(folder, 10);
        Files.setPosixFilePermissions(secret, Set.of());
        assumeTrue(!Files.isReadable(secret), "root reads everything");
        fails(
                AccessDeniedException.class,
                ArrowwoodException.Code.PERMISSION_DENIED,
                () -> Arrowwood.open(secret),
                "numbers");
    }

    @Test
    void rowsAndColumns() throws Exception {
        Dataset ds = Arrowwood.open(Samples.numbers(folder, 10));
        fails(IndexOutOfBoundsException.class, ArrowwoodException.Code.ROW_OUT_OF_RANGE, () -> ds.row(10), "10");
        fails(IndexOutOfBoundsException.class, ArrowwoodException.Code.ROW_OUT_OF_RANGE, () -> ds.row(-1));
        fails(IndexOutOfBoundsException.class, ArrowwoodException.Code.ROW_OUT_OF_RANGE, () -> ds.take(3, 10), "10");
        fails(IndexOutOfBoundsException.class, ArrowwoodException.Code.ROW_OUT_OF_RANGE, () -> ds.slice(-1, 1));
        fails(
                IndexOutOfBoundsException.class,
                ArrowwoodException.Code.ROW_OUT_OF_RANGE,
                () -> ds.column("n").get(10));
        fails(
                IndexOutOfBoundsException.class,
                ArrowwoodException.Code.ROW_OUT_OF_RANGE,
                () -> ds.column("n").asLong().get(10));
        fails(
                IndexOutOfBoundsException.class,
                ArrowwoodException.Code.ROW_OUT_OF_RANGE,
                () -> ds.column("x").asDouble().get(-1));
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.COLUMN_NOT_FOUND,
                () -> ds.column("m"),
                "'m'",
                "'word'");
        fails(IllegalArgumentException.class, ArrowwoodException.Code.COLUMN_NOT_FOUND, () -> ds.column(3), "3");
        fails(IllegalArgumentException.class, ArrowwoodException.Code.COLUMN_NOT_FOUND, () -> ds.column(-1));
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.COLUMN_NOT_FOUND,
                () -> ds.select("n", "m"),
                "'m'");
        fails(IllegalArgumentException.class, ArrowwoodException.Code.COLUMN_NOT_FOUND, () -> ds.select(0, -1), "-1");
        fails(IllegalArgumentException.class, ArrowwoodException.Code.INVALID_ARGUMENT, () -> ds.select("n\0m"), "NUL");
        fails(
                UnsupportedOperationException.class,
                ArrowwoodException.Code.UNSUPPORTED,
                () -> ds.column("word").sum());
        fails(
                UnsupportedOperationException.class,
                ArrowwoodException.Code.UNSUPPORTED,
                () -> ds.column("word").asDouble(),
                "utf8");
        fails(
                UnsupportedOperationException.class,
                ArrowwoodException.Code.UNSUPPORTED,
                () -> ds.column("x").asLong(),
                "float64");
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> ds.column("x").quantile(1.5));
        fails(IllegalArgumentException.class, ArrowwoodException.Code.INVALID_ARGUMENT, () -> ds.sample(11, 0));
        fails(IllegalArgumentException.class, ArrowwoodException.Code.INVALID_ARGUMENT, () -> ds.between(1, 2));
        fails(IllegalArgumentException.class, ArrowwoodException.Code.INVALID_ARGUMENT, () -> ds.follow(0));
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> Dataset.concat(List.of()));
        assertThrows(IllegalStateException.class, () -> ds.row(0).getLong("word"));
        assertThrows(IndexOutOfBoundsException.class, () -> ds.row(0).get(3));
    }

    @Test
    void conditions() throws Exception {
        Dataset ds = Arrowwood.open(Samples.numbers(folder, 10));
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.COLUMN_NOT_FOUND,
                () -> ds.filter(col("m").gt(1)),
                "'m'");
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> ds.filter(col("n").gt("x")),
                "n");
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> ds.filter(col("n").eq(new Object())),
                "Object");
        Condition deep = col("n").gt(1);
        for (int i = 0; i < 498; i++) {
            deep = deep.not();
        }
        assertEquals(8, ds.filter(deep).rowCount());
        assertEquals(2, ds.filter(deep.not()).rowCount());
        Condition deepest = deep.not();
        fails(IllegalArgumentException.class, ArrowwoodException.Code.INVALID_ARGUMENT, () -> deepest.not(), "500");
        assertEquals(0, ds.filter(col("n").eq(null)).rowCount());
        assertEquals(0, ds.filter(col("n").in()).rowCount());
    }

    record Wrong(long n, String y) {}

    record Small(byte n) {}

    @Test
    void records() throws Exception {
        Dataset ds = Arrowwood.open(Samples.numbers(folder, 1000));
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.COLUMN_NOT_FOUND,
                () -> ds.stream(Wrong.class),
                "'y'");
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> ds.stream(Small.class).toList(),
                "Small",
                "128");
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> Schema.of(Nested.class),
                "'inner'");
    }

    record Nested(Object inner) {}

    @Test
    void schemas() {
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> Schema.parse("n: inf64"),
                "inf64");
        fails(IllegalArgumentException.class, ArrowwoodException.Code.INVALID_ARGUMENT, () -> Schema.parse(""));
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.INVALID_ARGUMENT,
                () -> Schema.parse("n: int64, n: int64"),
                "'n'");
    }

    @Test
    void appending() throws Exception {
        Path path = folder.resolve("table");
        Schema schema = Schema.parse(
                "ts: timestamp[ms, UTC] not null, small: int8, price: decimal128(5, 2), day: date32, name: utf8");
        try (TableWriter writer = TableWriter.open(path, schema, WriterOptions.DEFAULT.sortedBy("ts"))) {
            Instant now = Instant.ofEpochMilli(1_000);
            writer.appendRow(now, 1, new BigDecimal("1.25"), LocalDate.EPOCH, "a");
            List<Executable> bad = List.of(
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
                    () -> writer.append(new Small((byte) 1)));
            for (Executable one : bad) {
                IllegalArgumentException failure = assertThrows(IllegalArgumentException.class, one);
                assertInstanceOf(ArrowwoodException.class, failure);
            }
            // None of them left anything behind, and the writer goes on.
            writer.append(Map.of("ts", now.plusMillis(1)));
            assertEquals(2, writer.progress().rows());
            fails(IllegalStateException.class, ArrowwoodException.Code.BUSY, () -> TableWriter.open(path), "table");
            fails(IllegalStateException.class, ArrowwoodException.Code.BUSY, () -> Arrowwood.repair(path));
            writer.commit();
        }
        fails(
                IllegalArgumentException.class,
                ArrowwoodException.Code.SCHEMA_MISMATCH,
                () -> TableWriter.open(path, Schema.parse("n: int64")));
        fails(
                UnsupportedOperationException.class,
                ArrowwoodException.Code.UNSUPPORTED,
                () -> TableWriter.open(folder.resolve("other"), Schema.parse("n: run_end_encoded<int32, int8>")),
                "n");
        try (TableWriter lists = TableWriter.open(folder.resolve("lists"), Schema.parse("many: list<int64>"))) {
            fails(
                    IllegalArgumentException.class,
                    ArrowwoodException.Code.INVALID_ARGUMENT,
                    () -> lists.appendRow((Object) null),
                    "'many'",
                    "in batches");
        }
        assertEquals(2, Arrowwood.open(path).rowCount());
    }

    @Test
    void damageIsFoundAndRepaired() throws Exception {
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
        Report found = Arrowwood.check(path);
        assertTrue(found.damaged() > 0 && !found.isIntact(), found.toString());
        assertTrue(found.findings().stream()
                .anyMatch(one -> one.isDamage() && !one.message().isEmpty()));
        Report repaired = Arrowwood.repair(path);
        assertEquals(500, repaired.kept(), repaired.toString());
        assertTrue(repaired.moved().stream().allMatch(name -> name.contains(".damaged")), repaired.toString());
        assertTrue(Arrowwood.check(path).isIntact());
        assertEquals(500, Arrowwood.open(path).rowCount());
        assertEquals(500, Arrowwood.stat(path).end());
    }

    /** Checks a file with progress that throws something of each kind; prints how often it was heard, and the rows. */
    static final class FailAtProgress {
        public static void main(String[] arguments) throws Exception {
            List<Throwable> thrown = List.of(
                    new IllegalStateException("the bar is closed"), new AssertionError("done > total"),
                    new IOException("the terminal is gone"), new StackOverflowError());
            for (Throwable one : thrown) {
                AtomicInteger heard = new AtomicInteger();
                Report report = Arrowwood.check(Path.of(arguments[0]), (done, total) -> {
                    heard.incrementAndGet();
                    FailAtProgress.<RuntimeException>fail(one);
                });
                System.out.println((heard.get() > 0) + " " + report.rows());
            }
        }

        /** Throws anything, as Kotlin and Scala do. */
        @SuppressWarnings("unchecked")
        private static <T extends Throwable> void fail(Throwable thrown) throws T {
            throw (T) thrown;
        }
    }

    @Test
    void whatProgressThrowsIsIgnored() throws Exception {
        Path numbers = Samples.numbers(folder, 10);
        String said = Programs.run(
                Programs.java(FailAtProgress.class, List.of(), numbers).toArray());
        assertEquals("true 10\n".repeat(4), said);
    }

    @Test
    void arrowsFuzzedFilesGiveRowsOrFailures() throws Exception {
        assumeTrue(Programs.golden().isPresent(), "Arrow's fuzzed files are not here");
        int count = 0;
        for (String kind : List.of("fuzz-file", "fuzz-stream")) {
            try (Stream<Path> files = Files.list(Programs.golden().get().resolve(kind))) {
                for (Path file : (Iterable<Path>) files::iterator) {
                    everything(file);
                    count++;
                }
            }
        }
        assertTrue(count > 60, count + " files");
    }

    /** Reads all there is in each way; what fails has to be ours, or a bound of memory. */
    private static void everything(Path file) throws Exception {
        try {
            Dataset ds = Arrowwood.open(file);
            tried(() -> ds.stream().limit(10_000).forEach(Row::toString));
            tried(() -> ds.display(10, 100));
            tried(ds::validate);
            for (Column column : ds.columns()) {
                tried(() -> column.nUnique());
                tried(() -> decoded(column));
            }
        } catch (Exception e) {
            assertInstanceOf(ArrowwoodException.class, e, file.toString());
        }
    }

    private static void tried(Runnable work) {
        try {
            work.run();
        } catch (RuntimeException e) {
            assertInstanceOf(ArrowwoodException.class, e);
        }
    }

    /** Values by hand: offsets and keys are unchecked, so that bounds of memory are what stops a wrong one. */
    private static void decoded(Column column) {
        for (Chunk chunk : column.chunks()) {
            for (long row = 0; row < Math.min(chunk.rowCount(), 1000); row++) {
                try {
                    Decoder.value(chunk, column.field().type(), row);
                } catch (IndexOutOfBoundsException | IllegalArgumentException | ArithmeticException e) {
                    return;
                }
            }
        }
    }
}
