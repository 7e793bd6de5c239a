package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
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

    /** The texts in the sources of the library, without its tests. */
    private static List<String> texts() throws Exception {
        List<String> texts = new ArrayList<>();
        for (String part : List.of("src", "capi/src", "crates/mapping/src")) {
            try (Stream<Path> files = Files.walk(ROOT.resolve(part))) {
                for (Path file :
                        (Iterable<Path>) files.filter(one -> one.toString().endsWith(".rs"))::iterator) {
                    String code = Files.readString(file).split("#\\[cfg\\(test\\)\\]\\s*mod ")[0];
                    String plain = code.replaceAll("(?m)^\\s*//.*$", "").replaceAll("'\\\\?\"'", "' '");
                    LITERAL.matcher(plain)
                            .results()
                            .map(found -> found.group(1))
                            .map(text -> text.replaceAll("\\\\\n\\s*", "").replace("\\\"", "\""))
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
                        .toList());
    }

    @Test
    void filesOfOtherFormatsAreNamedInTheWordsOfJava() throws Exception {
        Map<String, String> formats = Map.of(
                "PAR1", "Parquet", "FEA1", "Feather", "ORC", "ORC", "\u0093NUMPY", "NumPy", "a,b\n1,2\n", "readCsv");
        formats.forEach((head, name) -> {
            Path file = folder.resolve("some.data");
            String message = assertThrows(Failure.InvalidData.class, () -> {
                        Files.write(file, (head + " ".repeat(100)).getBytes(StandardCharsets.ISO_8859_1));
                        Arrowwood.open(file).rows();
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
}
