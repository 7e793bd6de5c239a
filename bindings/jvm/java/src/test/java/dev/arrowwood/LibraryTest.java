package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.arrowwood.internal.Internals;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests how the native library is found, and the messages if it isn't. Each case runs in a new JVM. */
class LibraryTest {
    /** The exit status of {@link PrintVersion} if the library can't be loaded. */
    private static final int NOT_LOADED = 7;

    @TempDir
    Path folder;

    /** Prints the version of the library, or the message if it can't be loaded. */
    static final class PrintVersion {
        public static void main(String[] arguments) {
            try {
                System.out.println(Arrowwood.version());
            } catch (UnsatisfiedLinkError e) {
                // The class is unusable from now on: another call fails too, without loading anything.
                try {
                    Arrowwood.version();
                } catch (NoClassDefFoundError alsoSecondTime) {
                    System.out.println(e.getMessage());
                    System.exit(NOT_LOADED);
                }
            }
        }
    }

    /** Runs {@link PrintVersion} with options of the JVM, and returns its output. */
    private static String printVersion(int expectedStatus, String... options) throws Exception {
        Programs.Exit exit = Programs.runToExit(Programs.javaCommand(PrintVersion.class, List.of(options)));
        assertEquals(expectedStatus, exit.status(), exit.output());
        return exit.output().strip();
    }

    /** Copies the library from the jar to the folder. */
    private Path extractLibrary() throws Exception {
        Path library = folder.resolve("libarrowwood.so");
        try (InputStream resource = LibraryTest.class.getResourceAsStream("/native/linux-x86_64/libarrowwood.so")) {
            Files.copy(resource, library, StandardCopyOption.REPLACE_EXISTING);
        }
        return library;
    }

    @Test
    void libraryOfJarLeavesNoTemporaryFile() throws Exception {
        assertEquals(Arrowwood.version(), printVersion(0, "-Darrowwood.tmpdir=" + folder));
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(List.of(), files.toList());
        }
    }

    @Test
    void libraryIsLoadedFromPropertyOrLibraryPath() throws Exception {
        Path library = extractLibrary();
        // The library of the jar can't be extracted to a missing folder, so it isn't the one that is loaded.
        String noTmpdir = "-Darrowwood.tmpdir=" + folder.resolve("none");
        assertEquals(Arrowwood.version(), printVersion(0, noTmpdir, "-Darrowwood.library=" + library));
        assertEquals(Arrowwood.version(), printVersion(0, noTmpdir, "-Djava.library.path=/nowhere:" + folder));
    }

    @Test
    void missingLibraryIsNamed() throws Exception {
        String message = printVersion(NOT_LOADED, "-Darrowwood.library=" + folder.resolve("missing.so"));
        assertTrue(message.contains("missing.so: no such file") && message.contains("make install-c"), message);
    }

    @Test
    void fileThatIsNotALibraryIsNamed() throws Exception {
        Path text = Files.writeString(folder.resolve("text.so"), "not a library");
        String message = printVersion(NOT_LOADED, "-Darrowwood.library=" + text);
        assertTrue(message.contains("text.so") && message.contains("shared library"), message);
    }

    @Test
    void otherLibraryIsRefused() throws Exception {
        Path libm = Path.of("/lib/x86_64-linux-gnu/libm.so.6");
        assumeTrue(Files.exists(libm), "libm is elsewhere");
        String message = printVersion(NOT_LOADED, "-Darrowwood.library=" + libm);
        assertTrue(message.contains("arrowwood_abi_version") && message.contains("not Arrowwood's library"), message);
    }

    @Test
    void platformsHaveTheNamesOfFoldersInTheJar() {
        assertEquals("linux-x86_64", Internals.platform("Linux", "amd64", false));
        assertEquals("linux-musl-aarch64", Internals.platform("Linux", "aarch64", true));
        assertEquals("macos-aarch64", Internals.platform("Mac OS X", "aarch64", true));
        assertEquals("macos-x86_64", Internals.platform("Mac OS X", "x86_64", true));
        assertEquals("windows-x86_64", Internals.platform("Windows Server 2025", "amd64", true));
        assertEquals("linux-riscv64", Internals.platform("Linux", "riscv64", false));
    }

    @Test
    void missingPlatformIsNamed() throws Exception {
        // The library of the jar is not for this processor, of which the JVM is told.
        String message = printVersion(NOT_LOADED, "-Dos.arch=riscv64");
        String expected = Internals.missing("linux-riscv64", List.of("linux-x86_64"));
        assertTrue(message.startsWith(expected) && message.contains("-Darrowwood.library=PATH"), message);
        assertTrue(expected.contains("no library for linux-riscv64, but for linux-x86_64."), expected);
    }

    @Test
    void unwritableTmpdirIsNamed() throws Exception {
        String message = printVersion(NOT_LOADED, "-Darrowwood.tmpdir=" + folder.resolve("none"));
        assertTrue(message.contains("none") && message.contains("-Darrowwood.tmpdir=FOLDER"), message);
    }

    @Test
    void versionsOfPomAndHeaderAreThoseOfTheLibrary() throws Exception {
        Path root = Path.of(System.getProperty("arrowwood.docs")).getParent();
        String pom = Files.readString(root.resolve("bindings/jvm/pom.xml"));
        assertTrue(pom.contains("<version>" + Arrowwood.version() + "</version>"), Arrowwood.version());
        String header = Files.readString(root.resolve("bindings/c/include/arrowwood.h"));
        assertTrue(header.contains("#define ARROWWOOD_ABI_VERSION " + Internals.ABI + "\n"));
        assertNotEquals("", Arrowwood.version());
    }
}
