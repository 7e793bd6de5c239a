package dev.arrowwood;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/** Runs the programs that tests need: those built by cargo, Python, and other JVMs. */
final class Programs {
    private static final Path BUILD_FOLDER = Path.of(System.getProperty("arrowwood.programs"));

    private Programs() {}

    /** Returns the path of the {@code arrowwood} command. */
    static Path arrowwood() {
        return BUILD_FOLDER.resolve("arrowwood");
    }

    /** Returns the path of the example {@code samples}, which writes files of all types and reads them as JSON. */
    static Path samples() {
        return BUILD_FOLDER.resolve("examples/samples");
    }

    /** Returns the folder of Arrow's own test files, if there is a copy on this machine. */
    static Optional<Path> arrowTestingFolder() {
        Path folder = Path.of(System.getProperty("arrowwood.golden"));
        return Files.isDirectory(folder.resolve("golden")) ? Optional.of(folder) : Optional.empty();
    }

    /** Returns a Python that can import Arrowwood, if there is one. */
    static Optional<Path> python() throws Exception {
        String executable = System.getProperty("arrowwood.python", "");
        if (executable.isEmpty() || !Files.isExecutable(Path.of(executable))) {
            return Optional.empty();
        }
        Exit exit = runToExit(List.of(executable, "-c", "import arrowwood"));
        return exit.status == 0 ? Optional.of(Path.of(executable)) : Optional.empty();
    }

    /** The exit status of a program, and what it wrote to standard output and standard error. */
    record Exit(int status, String output) {}

    static Exit runToExit(List<String> command) throws Exception {
        Path outputFile = Files.createTempFile("arrowwood", ".txt");
        try {
            Process process = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(outputFile.toFile())
                    .start();
            int status = Await.exitStatus(process, command.toString());
            return new Exit(status, Files.readString(outputFile));
        } finally {
            Files.delete(outputFile);
        }
    }

    /** Returns the output of a program, which must exit with status 0. */
    static String run(Object... command) throws Exception {
        Exit exit = runToExit(toStrings(command));
        if (exit.status != 0) {
            throw new AssertionError(List.of(command) + ": " + exit);
        }
        return exit.output;
    }

    static Process start(Object... command) throws IOException {
        return new ProcessBuilder(toStrings(command))
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    /** Returns the command that runs the {@code main} method of a class of these tests in a new JVM. */
    static List<String> javaCommand(Class<?> mainClass, List<String> options, Object... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(options);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), mainClass.getName()));
        command.addAll(toStrings(arguments));
        return command;
    }

    private static List<String> toStrings(Object[] values) {
        return Arrays.stream(values).map(Object::toString).toList();
    }
}
