package dev.arrowwood;

import static dev.arrowwood.Condition.col;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

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

/** What messages say: nothing that users of Java can't do. */
class MessagesTest {
    /** Calls and options of Python, Rust and C. */
    static final Pattern FOREIGN = Pattern.compile(
            "in Python|pandas|numpy\\.|pyarrow\\.|\\baw\\.|datetime[.(]|tzinfo|ds\\.sql|read_(csv|json|stream|parquet)\\b|sorted_by|segment_rows|drop_before|smaller"
                + " batch_rows|follow_partitions|late=|\\w=(True|False)\\b");

    private static final Path ROOT =
            Path.of(System.getProperty("arrowwood.docs")).getParent();
    private static final Pattern LITERAL = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\"", Pattern.DOTALL);

    @TempDir
    Path folder;

    /** Returns the texts in the library's sources, without its tests and the names of values in placeholders. */
    private static List<String> texts() throws Exception {
        List<String> texts = new ArrayList<>();
        for (String part : List.of("src", "capi/src", "crates/mapping/src")) {
            try (Stream<Path> files = Files.walk(ROOT.resolve(part))) {
                for (Path file :
                        (Iterable<Path>) files.filter(path -> path.toString().endsWith(".rs"))::iterator) {
                    String code = Files.readString(file).split("#\\[cfg\\(test\\)\\]\\s*mod ")[0];
                    String plain = code.replaceAll("(?m)^\\s*//.*$", "").replaceAll("'\\\\?\"'", "' '");
                    LITERAL.matcher(plain)
                            .results()
                            .map(literal -> literal.group(1))
                            .map(text -> text.replaceAll("\\\\\n\\s*", "").replace("\\\"", "\""))
                            .map(text -> text.replaceAll("\\{\\w+\\}", "{}"))
                            .filter(text -> text.contains(" "))
                            .forEach(texts::add);
                }
            }
        }
        return texts;
    }

    @Test
    void theLibraryAdvisesNoCallOfAnotherLanguage() throws Exception {
        List<String> foreign =
                texts().stream().filter(text -> FOREIGN.matcher(text).find()).toList();
        assertTrue(foreign.size() > 20, foreign::toString);
        assertEquals(
                List.of(),
                foreign.stream()
                        .map(Messages::inJava)
                        .filter(text -> FOREIGN.matcher(text).find())
                        .toList(),
                "Messages.java has no words of Java for these");
    }

    @Test
    void filesOfOtherFormatsAreNamedInTheWordsOfJava() throws Exception {
        Map<String, String> formats = Map.of(
                "PAR1", "Parquet", "FEA1", "Feather", "ORC", "ORC", "\u0093NUMPY", "NumPy", "a,b\n1,2\n", "readCsv");
        formats.forEach((head, name) -> {
            Path file = folder.resolve("some.data");
            String message = assertThrows(ArrowwoodException.InvalidData.class, () -> {
                        Files.write(file, (head + " ".repeat(100)).getBytes(StandardCharsets.ISO_8859_1));
                        Arrowwood.open(file).rowCount();
                    })
                    .getMessage();
            assertTrue(message.contains(name), message);
            assertFalse(FOREIGN.matcher(message).find(), message);
        });
    }

    @Test
    void aNameOfAnotherFormatIsRefusedInTheWordsOfJava() throws Exception {
        Dataset ds = Arrowwood.open(Samples.numbers(folder, 3));
        String message = assertThrows(
                        IllegalArgumentException.class, () -> ds.write(folder.resolve("it's \"quoted\").parquet")))
                .getMessage();
        assertTrue(message.contains("arrowwood export"), message);
        assertFalse(FOREIGN.matcher(message).find(), message);
    }

    record Short(int n) {}

    @Test
    void messagesShowAPartOfWhatIsLong() throws Exception {
        Dataset ds = Arrowwood.open(Samples.numbers(folder, 3));
        for (String letter : List.of("x", "ä", "\ud83c\udf32", "\n")) {
            String text = letter.repeat(1_000_000);
            BigDecimal digits = new BigDecimal("1".repeat(100_000));
            Path table = folder.resolve("table" + (int) letter.charAt(0));
            Schema schema = Schema.parse("n: int8, d: decimal128(5, 1)");
            try (TableWriter writer = TableWriter.open(table, schema)) {
                List<Executable> slips = List.of(
                        () -> ds.column(text),
                        () -> ds.row(0).get(text),
                        () -> ds.select(text),
                        () -> ds.filter(col(text).gt(1)),
                        () -> ds.filter(col("n").gt(text)),
                        () -> ds.filter(col("n").in(1, text)),
                        () -> ds.filter(col("word").gt(digits)),
                        () -> ds.between(text, text),
                        () -> ds.aggregate(List.of(text), Aggregate.count()),
                        () -> ds.aggregate(List.of(), Aggregate.sum(text)),
                        () -> Arrowwood.open(Path.of(text)),
                        () -> Arrowwood.check(Path.of(text)),
                        () -> ds.write(Path.of(text)),
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
                for (int i = 0; i < slips.size(); i++) {
                    String what = "slip " + i + " of " + letter;
                    Throwable failure = assertThrows(Exception.class, slips.get(i), what);
                    assertInstanceOf(ArrowwoodException.class, failure, what);
                    assertTrue(
                            failure.getMessage().length() < 2_500,
                            what + ": " + failure.getMessage().length());
                    assertTrue(failure.toString().length() < 2_500, what);
                }
            }
        }
        Path words = folder.resolve("words.arrow");
        Arrowwood.readCsv(Files.writeString(folder.resolve("words.csv"), "n\n" + "x".repeat(1_000_000) + "\n"))
                .write(words);
        Throwable failure = assertThrows(
                ArrowwoodException.InvalidArgument.class,
                () -> Arrowwood.open(words).stream(Short.class).toList());
        assertTrue(failure.getMessage().length() < 2_500);
    }

    @Test
    void negativeNumbersAreSaidAsTheyWereGiven() throws Exception {
        Path table = folder.resolve("table");
        try (TableWriter writer = TableWriter.open(table, Schema.parse("n: int32"))) {
            writer.appendRow(1);
            writer.commit();
            Dataset ds = Arrowwood.open(table);
            List<Executable> rows = List.of(
                    () -> ds.row(-1),
                    () -> ds.column("n").get(-1),
                    () -> ds.column("n").asLong().get(-1),
                    () -> ds.slice(-1, 1),
                    () -> ds.head(-1),
                    () -> ds.tail(-1),
                    () -> ds.follow(-15),
                    () -> writer.dropBefore(-1));
            for (Executable slip : rows) {
                String message = assertThrows(ArrowwoodException.RowOutOfRange.class, slip)
                        .getMessage();
                assertTrue(message.contains("-1"), message);
            }
            List<Executable> counts = List.of(
                    () -> ds.sample(-1, 0),
                    () -> ds.display(-1, 80),
                    () -> ds.display(5, -1),
                    () -> WriteOptions.FILE.withMaxRows(-1),
                    () -> WriterOptions.DEFAULT.segmentRows(-1));
            for (Executable slip : counts) {
                String message = assertThrows(ArrowwoodException.InvalidArgument.class, slip)
                        .getMessage();
                assertTrue(message.contains("-1"), message);
            }
        }
    }
}
