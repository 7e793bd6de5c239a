package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
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

/** Runs the code of docs/java.md and examples/java in jshell, and compares what it prints with what the page shows. */
class DocsTest {
    private static final Path ROOT =
            Path.of(System.getProperty("arrowwood.docs")).getParent();
    /** Matches a code block in Markdown: its language, then its text. */
    private static final Pattern BLOCK = Pattern.compile("^```(\\w+)\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL);

    /** The packages that the jshell tool imports by default, but its API does not. */
    private static final List<String> DEFAULT_IMPORTS = List.of(
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

    /** A session of jshell with its default options. */
    private static final class Session implements AutoCloseable {
        private final ByteArrayOutputStream output = new ByteArrayOutputStream();
        private final JShell shell = JShell.builder()
                .out(new PrintStream(output, true, StandardCharsets.UTF_8))
                .remoteVMOptions("--enable-native-access=ALL-UNNAMED", "-Dstdout.encoding=UTF-8")
                .build();

        Session() {
            shell.addToClasspath(System.getProperty("java.class.path"));
            DEFAULT_IMPORTS.forEach(name -> run("import " + name + ";"));
        }

        /** Runs snippets one by one, and returns what they print. */
        String run(String code) {
            output.reset();
            String remaining = code;
            while (!remaining.isBlank()) {
                SourceCodeAnalysis.CompletionInfo next =
                        shell.sourceCodeAnalysis().analyzeCompletion(remaining);
                assertTrue(next.completeness().isComplete(), () -> "incomplete: " + next.remaining() + next.source());
                for (SnippetEvent event : shell.eval(next.source())) {
                    List<String> diagnostics = shell.diagnostics(event.snippet())
                            .map(diagnostic -> diagnostic.getMessage(null))
                            .toList();
                    assertEquals(Snippet.Status.VALID, event.status(), next.source() + diagnostics);
                    assertNull(event.exception(), next.source());
                }
                remaining = next.remaining();
            }
            return output.toString(StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            shell.close();
        }
    }

    private static String normalizeSpace(String text) {
        return String.join(" ", text.strip().split("\\s+"));
    }

    /** Returns true if an output is as expected, where an ellipsis stands for any text and all space is alike. */
    private static boolean matches(String expected, String output) {
        String pattern = Pattern.quote(normalizeSpace(expected)).replace("…", "\\E.*?\\Q");
        return Pattern.matches(pattern, normalizeSpace(output));
    }

    @Test
    void codeOfThePagePrintsWhatThePageShows() throws Exception {
        List<MatchResult> blocks = BLOCK.matcher(Files.readString(ROOT.resolve("docs/java.md")))
                .results()
                .toList();
        // The output of the last code block, until a block of text is compared with it.
        String output = null;
        int comparedBlocks = 0;
        try (Session session = new Session()) {
            for (MatchResult block : blocks) {
                String language = block.group(1);
                String text = block.group(2);
                if (language.equals("java")) {
                    output = session.run(text);
                } else if (language.equals("text") && output != null) {
                    assertTrue(matches(text, output), text + "\nbut was\n" + output);
                    output = null;
                    comparedBlocks++;
                }
            }
        }
        assertTrue(comparedBlocks >= 7, comparedBlocks + " blocks");
    }

    @Test
    void exampleRunsInJshell() throws Exception {
        try (Session session = new Session()) {
            String output = session.run(Files.readString(ROOT.resolve("examples/java/prices.jsh")));
            assertTrue(output.contains("100000 rows") || output.contains("100,000 rows"), output);
            assertTrue(output.contains("\n102.99") && output.contains("\n4762\n"), output);
        }
    }
}
