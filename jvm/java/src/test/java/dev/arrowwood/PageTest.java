package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import org.junit.jupiter.api.Test;

/** docs/java.md and the example: pasted into jshell, and what they print compared. */
class PageTest {
    private static final Path ROOT =
            Path.of(System.getProperty("arrowwood.docs")).getParent();
    private static final Pattern BLOCK = Pattern.compile("^```(\\w+)\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL);

    /** What jshell imports by itself. */
    private static final List<String> IMPORTS = List.of(
            "java.io.*",
            "java.math.*",
            "java.net.*",
            "java.nio.file.*",
            "java.util.*",
            "java.util.concurrent.*",
            "java.util.function.*",
            "java.util.prefs.*",
            "java.util.regex.*",
            "java.util.stream.*");

    /** A jshell as a newcomer starts it. */
    private static final class Session implements AutoCloseable {
        private final ByteArrayOutputStream printed = new ByteArrayOutputStream();
        private final JShell shell = JShell.builder()
                .out(new PrintStream(printed, true, StandardCharsets.UTF_8))
                .remoteVMOptions("--enable-native-access=ALL-UNNAMED", "-Dstdout.encoding=UTF-8")
                .build();

        Session() {
            shell.addToClasspath(System.getProperty("java.class.path"));
            IMPORTS.forEach(name -> run("import " + name + ";"));
        }

        /** Runs snippets one by one, and returns what they print. */
        String run(String text) {
            printed.reset();
            String left = text;
            while (!left.isBlank()) {
                SourceCodeAnalysis.CompletionInfo next =
                        shell.sourceCodeAnalysis().analyzeCompletion(left);
                assertTrue(next.completeness().isComplete(), () -> "incomplete: " + next.remaining() + next.source());
                for (SnippetEvent event : shell.eval(next.source())) {
                    String why = shell.diagnostics(event.snippet())
                            .map(d -> d.getMessage(null))
                            .toList()
                            .toString();
                    assertEquals(Snippet.Status.VALID, event.status(), next.source() + why);
                    assertEquals(null, event.exception(), next.source());
                }
                left = next.remaining();
            }
            return printed.toString(StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            shell.close();
        }
    }

    private static String words(String text) {
        return String.join(" ", text.strip().split("\\s+"));
    }

    @Test
    void thePage() throws Exception {
        List<MatchResult> blocks = BLOCK.matcher(Files.readString(ROOT.resolve("docs/java.md")))
                .results()
                .toList();
        String printed = null;
        int compared = 0;
        try (Session session = new Session()) {
            for (MatchResult block : blocks) {
                if (block.group(1).equals("java")) {
                    printed = session.run(block.group(2));
                } else if (block.group(1).equals("text") && printed != null) {
                    String pattern = Pattern.quote(words(block.group(2))).replace("…", "\\E.*?\\Q");
                    String said = printed;
                    assertTrue(Pattern.matches(pattern, words(said)), () -> block.group(2) + "\nbut was\n" + said);
                    printed = null;
                    compared++;
                }
            }
        }
        assertTrue(compared >= 7, compared + " blocks");
    }

    @Test
    void theExample() throws Exception {
        try (Session session = new Session()) {
            String said = session.run(Files.readString(ROOT.resolve("examples/java/prices.jsh")));
            assertTrue(said.contains("100000 rows") || said.contains("100,000 rows"), said);
            assertTrue(said.contains("\n102.99") && said.contains("\n4762\n"), said);
        }
    }
}
