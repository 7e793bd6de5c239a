package dev.arrowwood;

import static dev.arrowwood.Condition.col;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.arrowwood.internal.Internals;
import dev.arrowwood.internal.Messages;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** Tests that messages advise only calls of the Java API, are of limited length, and repeat numbers as given. */
class MessagesTest {
    /** Matches calls and options of Python, Rust and C. */
    static final Pattern FOREIGN = Pattern.compile(String.join(
            "|",
            "in Python",
            "pandas",
            "numpy\\.",
            "pyarrow\\.",
            "\\baw\\.",
            "datetime[.(]",
            "tzinfo",
            "ds\\.sql",
            "read_(csv|json|stream|parquet)\\b",
            "sorted_by",
            "segment_rows",
            "drop_before",
            "smaller batch_rows",
            "follow_partitions",
            "late=",
            "\\w=(True|False)\\b"));

    private static final Path ROOT =
            Path.of(System.getProperty("arrowwood.docs")).getParent();
    private static final Pattern LITERAL = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\"", Pattern.DOTALL);

    /** More than {@link Messages#shortened} leaves, but less than any of the long arguments. */
    private static final int MAX_MESSAGE_LENGTH = 2_500;

    @TempDir
    Path folder;

    /**
     * Returns the string literals of the library's sources, except in tests. Names in placeholders are removed, as
     * they are not part of a message.
     */
    private static List<String> libraryTexts() throws IOException {
        List<String> texts = new ArrayList<>();
        for (String folder : List.of("crates/arrowwood/src", "bindings/c/src", "crates/mapping/src")) {
            List<Path> sources;
            try (Stream<Path> files = Files.walk(ROOT.resolve(folder))) {
                sources = files.filter(path -> path.toString().endsWith(".rs")).toList();
            }
            for (Path source : sources) {
                String code = Files.readString(source).split("#\\[cfg\\(test\\)\\]\\s*mod ")[0];
                String withoutComments = code.replaceAll("(?m)^\\s*//.*$", "");
                // A quotation mark in a character literal doesn't begin a string.
                String withoutQuotes = withoutComments.replaceAll("'\\\\?\"'", "' '");
                LITERAL.matcher(withoutQuotes)
                        .results()
                        .map(literal -> literal.group(1))
                        .map(text -> text.replaceAll("\\\\\n\\s*", "").replace("\\\"", "\""))
                        .map(text -> text.replaceAll("\\{\\w+\\}", "{}"))
                        .filter(text -> text.contains(" "))
                        .forEach(texts::add);
            }
        }
        return texts;
    }

    private static boolean isForeign(String text) {
        return FOREIGN.matcher(text).find();
    }

    @Test
    void translatedMessagesNameNoOtherLanguage() throws Exception {
        List<String> foreign =
                libraryTexts().stream().filter(MessagesTest::isForeign).toList();
        assertTrue(foreign.size() > 20, foreign::toString);
        List<String> untranslated = foreign.stream()
                .map(Internals::inJava)
                .filter(MessagesTest::isForeign)
                .toList();
        assertEquals(List.of(), untranslated, "Messages.java lacks a translation");
    }

    @Test
    void openNamesOtherFileFormats() throws Exception {
        Map<String, String> namesByMagic = Map.of(
                "PAR1", "Parquet", "FEA1", "Feather", "ORC", "ORC", "\u0093NUMPY", "NumPy", "a,b\n1,2\n", "readCsv");
        for (Map.Entry<String, String> format : namesByMagic.entrySet()) {
            Path file = folder.resolve("some.data");
            Files.write(file, (format.getKey() + " ".repeat(100)).getBytes(StandardCharsets.ISO_8859_1));
            String message = assertThrows(
                            ArrowwoodException.InvalidData.class,
                            () -> Arrowwood.open(file).rowCount())
                    .getMessage();
            assertTrue(message.contains(format.getValue()), message);
            assertFalse(isForeign(message), message);
        }
    }

    @Test
    void writeRejectsNamesOfOtherFormats() throws Exception {
        Dataset dataset = Arrowwood.open(Samples.writeNumbers(folder, 3));
        Path parquet = folder.resolve("it's \"quoted\").parquet");
        String message = assertThrows(IllegalArgumentException.class, () -> dataset.write(parquet))
                .getMessage();
        assertTrue(message.contains("arrowwood export"), message);
        assertFalse(isForeign(message), message);
    }

    record OneInt(int n) {}

    @Test
    void longArgumentsAreShortenedInMessages() throws Exception {
        Dataset dataset = Arrowwood.open(Samples.writeNumbers(folder, 3));
        for (String character : List.of("x", "ä", "\ud83c\udf32", "\n")) {
            String text = character.repeat(1_000_000);
            BigDecimal digits = new BigDecimal("1".repeat(100_000));
            Path table = folder.resolve("table" + (int) character.charAt(0));
            Schema schema = Schema.parse("n: int8, d: decimal128(5, 1)");
            try (TableWriter writer = TableWriter.open(table, schema)) {
                List<Executable> invalidCalls = List.of(
                        () -> dataset.column(text),
                        () -> dataset.row(0).get(text),
                        () -> dataset.select(text),
                        () -> dataset.filter(col(text).gt(1)),
                        () -> dataset.filter(col("n").gt(text)),
                        () -> dataset.filter(col("n").in(1, text)),
                        () -> dataset.filter(col("word").gt(digits)),
                        () -> dataset.between(text, text),
                        () -> dataset.aggregate(List.of(text), Aggregate.count()),
                        () -> dataset.aggregate(List.of(), Aggregate.sum(text)),
                        () -> Arrowwood.open(Path.of(text)),
                        () -> Arrowwood.check(Path.of(text)),
                        () -> dataset.write(Path.of(text)),
                        () -> TableWriter.open(Path.of(text), schema),
                        () -> Schema.parse(text),
                        () -> Schema.parse("n: " + text),
                        () -> Schema.parse(text + "\0"),
                        () -> writer.append(Map.of(text, 1)),
                        () -> writer.appendRow(text, null),
                        () -> writer.appendRow(1, digits),
                        () -> writer.appendRow(1, digits.movePointLeft(50_000)),
                        () -> writer.commit(Map.of(text, 1L)),
                        () -> Arrowwood.readCsv(
                                Files.writeString(folder.resolve("long.csv"), "n\n" + text + "y\n1\n2,3\n")),
                        () -> Arrowwood.readCsv(
                                folder.resolve("long.csv"),
                                new Arrowwood.CsvOptions(Optional.empty(), List.of(text), ',')));
                for (int i = 0; i < invalidCalls.size(); i++) {
                    String description = "call " + i + " with " + character;
                    Throwable failure = assertThrows(Exception.class, invalidCalls.get(i), description);
                    assertInstanceOf(ArrowwoodException.class, failure, description);
                    int length = failure.getMessage().length();
                    assertTrue(length < MAX_MESSAGE_LENGTH, () -> description + ": " + length);
                    assertTrue(failure.toString().length() < MAX_MESSAGE_LENGTH, description);
                }
            }
        }
        Path words = folder.resolve("words.arrow");
        Arrowwood.readCsv(Files.writeString(folder.resolve("words.csv"), "n\n" + "x".repeat(1_000_000) + "\n"))
                .write(words);
        Throwable failure = assertThrows(
                ArrowwoodException.InvalidArgument.class,
                () -> Arrowwood.open(words).stream(OneInt.class).toList());
        assertTrue(failure.getMessage().length() < MAX_MESSAGE_LENGTH);
    }

    @Test
    void messagesRepeatNegativeNumbers() throws Exception {
        Path table = folder.resolve("table");
        try (TableWriter writer = TableWriter.open(table, Schema.parse("n: int32"))) {
            writer.appendRow(1);
            writer.commit();
            Dataset dataset = Arrowwood.open(table);
            List<Executable> invalidRows = List.of(
                    () -> dataset.row(-1),
                    () -> dataset.column("n").get(-1),
                    () -> dataset.column("n").asLong().get(-1),
                    () -> dataset.slice(-1, 1),
                    () -> dataset.head(-1),
                    () -> dataset.tail(-1),
                    () -> dataset.follow(-15),
                    () -> writer.dropBefore(-1));
            for (Executable call : invalidRows) {
                String message = assertThrows(ArrowwoodException.RowOutOfRange.class, call)
                        .getMessage();
                assertTrue(message.contains("-1"), message);
            }
            List<Executable> invalidCounts = List.of(
                    () -> dataset.sample(-1, 0),
                    () -> dataset.display(-1, 80),
                    () -> dataset.display(5, -1),
                    () -> WriteOptions.FILE.withMaxRows(-1),
                    () -> WriterOptions.DEFAULT.segmentRows(-1));
            for (Executable call : invalidCounts) {
                String message = assertThrows(ArrowwoodException.InvalidArgument.class, call)
                        .getMessage();
                assertTrue(message.contains("-1"), message);
            }
        }
    }
}
