package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How the library is found, and what is said where it isn't: in JVMs of their own. */
class LibraryTest {
    @TempDir
    Path folder;

    /** Prints the version of the library. */
    static final class Version {
        public static void main(String[] arguments) {
            try {
                System.out.println(Arrowwood.version());
            } catch (UnsatisfiedLinkError e) {
                // The second use fails as well, with the same explanation.
                try {
                    Arrowwood.version();
                } catch (NoClassDefFoundError again) {
                    System.out.println(e.getMessage());
                    System.exit(7);
                }
            }
        }
    }

    private static String says(int code, String... options) throws Exception {
        Programs.Exit exit = Programs.exit(Programs.java(Version.class, List.of(options)));
        assertEquals(code, exit.code(), exit.said());
        return exit.said().strip();
    }

    private Path extracted() throws Exception {
        Path library = folder.resolve("libarrowwood.so");
        try (var jar = LibraryTest.class.getResourceAsStream("/native/linux-x86_64/libarrowwood.so")) {
            Files.copy(jar, library, StandardCopyOption.REPLACE_EXISTING);
        }
        return library;
    }

    @Test
    void theLibraryOfTheJarLeavesNothingBehind() throws Exception {
        assertEquals(Arrowwood.version(), says(0, "-Darrowwood.tmpdir=" + folder));
        try (Stream<Path> left = Files.list(folder)) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void aLibraryCanBeNamedOrInstalled() throws Exception {
        Path library = extracted();
        // No folder to extract to, so it must be this file.
        String nowhere = "-Darrowwood.tmpdir=" + folder.resolve("none");
        assertEquals(Arrowwood.version(), says(0, nowhere, "-Darrowwood.library=" + library));
        assertEquals(Arrowwood.version(), says(0, nowhere, "-Djava.library.path=/nowhere:" + folder));
    }

    @Test
    void aMissingLibraryIsNamed() throws Exception {
        String said = says(7, "-Darrowwood.library=" + folder.resolve("missing.so"));
        assertTrue(said.contains("missing.so: no such file") && said.contains("make install-c"), said);
    }

    @Test
    void whatIsNoLibraryIsNamed() throws Exception {
        Path text = Files.writeString(folder.resolve("text.so"), "not a library");
        String said = says(7, "-Darrowwood.library=" + text);
        assertTrue(said.contains("text.so") && said.contains("shared library"), said);
    }

    @Test
    void anotherLibraryIsNotTakenForOurs() throws Exception {
        Path libc = Path.of("/lib/x86_64-linux-gnu/libm.so.6");
        org.junit.jupiter.api.Assumptions.assumeTrue(Files.exists(libc), "libm is elsewhere");
        String said = says(7, "-Darrowwood.library=" + libc);
        assertTrue(said.contains("arrowwood_abi_version") && said.contains("not Arrowwood's library"), said);
    }

    @Test
    void aFolderThatCantBeWrittenIsNamed() throws Exception {
        String said = says(7, "-Darrowwood.tmpdir=" + folder.resolve("none"));
        assertTrue(said.contains("none") && said.contains("-Darrowwood.tmpdir=FOLDER"), said);
    }

    @Test
    void theVersionsOfPomAndHeaderAgreeWithTheLibrary() throws Exception {
        Path root = Path.of(System.getProperty("arrowwood.docs")).getParent();
        String pom = Files.readString(root.resolve("jvm/pom.xml"));
        assertTrue(pom.contains("<version>" + Arrowwood.version() + "</version>"), Arrowwood.version());
        String header = Files.readString(root.resolve("capi/include/arrowwood.h"));
        assertTrue(header.contains("#define ARROWWOOD_ABI_VERSION " + Library.ABI + "\n"));
        assertNotEquals("", Arrowwood.version());
    }
}
