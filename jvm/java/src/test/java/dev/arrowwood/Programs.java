package dev.arrowwood;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Other programs: those that cargo has built, Python, and JVMs of their own. */
final class Programs {
    private static final Path BUILT = Path.of(System.getProperty("arrowwood.programs"));

    private Programs() {}

    static Path command() {
        return BUILT.resolve("arrowwood");
    }

    static Path samples() {
        return BUILT.resolve("examples/samples");
    }

    /** Arrow's own files, where a copy of them is. */
    static Optional<Path> golden() {
        Path golden = Path.of(System.getProperty("arrowwood.golden"));
        return Files.isDirectory(golden.resolve("golden")) ? Optional.of(golden) : Optional.empty();
    }

    /** A Python that has Arrowwood. */
    static Optional<Path> python() throws Exception {
        String named = System.getProperty("arrowwood.python", "");
        boolean works = !named.isEmpty()
                && Files.isExecutable(Path.of(named))
                && exit(List.of(named, "-c", "import arrowwood")).code == 0;
        return works ? Optional.of(Path.of(named)) : Optional.empty();
    }

    /** What a program said, and how it ended. */
    record Exit(int code, String said) {}

    static Exit exit(List<String> words) throws Exception {
        Path said = Files.createTempFile("arrowwood", ".txt");
        try {
            Process process = new ProcessBuilder(words)
                    .redirectErrorStream(true)
                    .redirectOutput(said.toFile())
                    .start();
            int status = Await.status(process, words.toString());
            return new Exit(status, new String(Files.readAllBytes(said), StandardCharsets.UTF_8));
        } finally {
            Files.delete(said);
        }
    }

    /** What a program says that has to end well. */
    static String run(Object... words) throws Exception {
        Exit exit = exit(java.util.Arrays.stream(words).map(Object::toString).toList());
        if (exit.code != 0) {
            throw new AssertionError(List.of(words) + ": " + exit);
        }
        return exit.said;
    }

    static Process start(Object... words) throws IOException {
        List<String> texts =
                java.util.Arrays.stream(words).map(Object::toString).toList();
        return new ProcessBuilder(texts)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    /** The words that run a class of these tests in a JVM of its own. */
    static List<String> java(Class<?> main, List<String> options, Object... arguments) {
        List<String> words = new ArrayList<>();
        words.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        words.add("--enable-native-access=ALL-UNNAMED");
        words.addAll(options);
        words.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        java.util.Arrays.stream(arguments).forEach(argument -> words.add(argument.toString()));
        return words;
    }
}
