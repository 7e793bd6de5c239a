package dev.arrowwood.internal;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * Finds and loads {@code libarrowwood}: the file that {@code -Darrowwood.library} names, else the first of that name on
 * {@code java.library.path}, else the one inside the jar, which is extracted to {@code -Darrowwood.tmpdir} or
 * {@code java.io.tmpdir} and deleted once it is loaded.
 */
final class Library {
    /** The ABI version that this code requires: {@code ARROWWOOD_ABI_VERSION} in the header. */
    static final int ABI = 1;

    /** The systems for which a jar may have a library: the folders of {@code /native}. */
    private static final List<String> PLATFORMS = List.of(
            "linux-x86_64",
            "linux-aarch64",
            "linux-musl-x86_64",
            "linux-musl-aarch64",
            "macos-x86_64",
            "macos-aarch64",
            "windows-x86_64");

    private static final Linker LINKER = Linker.nativeLinker();
    private static final Source SOURCE = load();

    private Library() {}

    /** The symbols of a loaded library, and its origin for messages. */
    private record Source(SymbolLookup symbols, String origin) {}

    /** Returns the handle of a function of the library. */
    static MethodHandle function(String name, FunctionDescriptor descriptor, Linker.Option... options) {
        return function(SOURCE, name, descriptor, options);
    }

    /** Returns the address of a function of the library. */
    static MemorySegment address(String name) {
        return address(SOURCE, name);
    }

    private static MethodHandle function(
            Source source, String name, FunctionDescriptor descriptor, Linker.Option... options) {
        return LINKER.downcallHandle(address(source, name), descriptor, options);
    }

    private static MemorySegment address(Source source, String name) {
        return source.symbols
                .find(name)
                .orElseThrow(() -> new UnsatisfiedLinkError(source.origin + " has no function " + name
                        + ": it is older than this jar, or not Arrowwood's library. " + remedy()));
    }

    private static Source load() {
        String configured = System.getProperty("arrowwood.library");
        if (configured != null) {
            return open(Path.of(configured), "-Darrowwood.library=" + configured);
        }
        Optional<Path> installed = findOnLibraryPath();
        if (installed.isPresent()) {
            return open(installed.get(), installed.get() + " (of java.library.path)");
        }
        return extract();
    }

    private static Optional<Path> findOnLibraryPath() {
        String name = System.mapLibraryName("arrowwood");
        for (String folder : System.getProperty("java.library.path", "").split(File.pathSeparator)) {
            if (!folder.isEmpty() && Files.isRegularFile(Path.of(folder, name))) {
                return Optional.of(Path.of(folder, name));
            }
        }
        return Optional.empty();
    }

    private static Source open(Path path, String origin) {
        if (!Files.isRegularFile(path)) {
            throw new UnsatisfiedLinkError(origin + ": no such file. " + remedy());
        }
        SymbolLookup symbols;
        try {
            symbols = SymbolLookup.libraryLookup(path.toAbsolutePath(), Arena.global());
        } catch (IllegalArgumentException e) {
            UnsatisfiedLinkError error =
                    new UnsatisfiedLinkError(origin + ": can't be loaded: is it a shared library for " + platform()
                            + ", in a folder from which files may be executed? " + remedy());
            error.initCause(e);
            throw error;
        }
        Source source = new Source(symbols, origin);
        checkVersion(source);
        return source;
    }

    private static void checkVersion(Source source) {
        MethodHandle version = function(source, "arrowwood_abi_version", FunctionDescriptor.of(ValueLayout.JAVA_INT));
        int abi;
        try {
            abi = (int) version.invokeExact();
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
        if (abi != ABI) {
            throw new UnsatisfiedLinkError(source.origin + " has ABI version " + abi + ", this jar needs " + ABI
                    + ": use the library and the jar of the same release. " + remedy());
        }
    }

    /** Extracts the library of the jar, loads it and deletes the file. */
    private static Source extract() {
        String name = System.mapLibraryName("arrowwood");
        String folder = System.getProperty("arrowwood.tmpdir", System.getProperty("java.io.tmpdir"));
        Path path = null;
        try (InputStream library = Library.class.getResourceAsStream(resource(platform()))) {
            if (library == null) {
                throw new UnsatisfiedLinkError(missing(platform(), present()) + " " + remedy());
            }
            path = Files.createTempFile(Path.of(folder), "arrowwood", name.substring(name.lastIndexOf('.')));
            try (OutputStream file = Files.newOutputStream(path)) {
                library.transferTo(file);
            }
            return open(path, "the library of the jar, extracted to " + folder);
        } catch (IOException e) {
            UnsatisfiedLinkError error = new UnsatisfiedLinkError("can't extract the library of the jar to " + folder
                    + ": " + e + ". Name another folder with -Darrowwood.tmpdir=FOLDER.");
            error.initCause(e);
            throw error;
        } finally {
            discard(path);
        }
    }

    /** Removes an extracted file; its mappings remain. On Windows it stays until it is removed by hand. */
    private static void discard(Path path) {
        try {
            if (path != null) {
                Files.deleteIfExists(path);
            }
        } catch (IOException e) {
            path.toFile().deleteOnExit();
        }
    }

    /** Returns the resource of the library for a platform. */
    private static String resource(String platform) {
        String system = platform.substring(0, platform.indexOf('-'));
        String name = switch (system) {
            case "windows" -> "arrowwood.dll";
            case "macos" -> "libarrowwood.dylib";
            default -> "libarrowwood.so";
        };
        return "/native/" + platform + "/" + name;
    }

    /** Returns the platforms for which the jar has a library. */
    private static List<String> present() {
        return PLATFORMS.stream()
                .filter(platform -> Library.class.getResource(resource(platform)) != null)
                .toList();
    }

    /** Returns the message for a jar that has libraries for other platforms only. */
    static String missing(String platform, List<String> present) {
        return "the jar has no library for " + platform + ", "
                + (present.isEmpty() ? "nor for any other system." : "but for " + String.join(", ", present) + ".");
    }

    private static String platform() {
        return platform(System.getProperty("os.name"), System.getProperty("os.arch"), isMusl());
    }

    /** Returns {@code linux-x86_64} and the like. Systems for which there is no library have names of this form, too. */
    static String platform(String osName, String osArch, boolean isMusl) {
        String os = osName.toLowerCase(Locale.ROOT).split(" ")[0];
        String system = switch (os) {
            case "linux" -> isMusl ? "linux-musl" : "linux";
            case "mac" -> "macos";
            default -> os;
        };
        String processor = switch (osArch) {
            case "amd64" -> "x86_64";
            case "arm64" -> "aarch64";
            default -> osArch;
        };
        return system + "-" + processor;
    }

    /**
     * Returns true if the C library of a Linux is musl, as on Alpine, where libraries that were linked with glibc can't
     * be loaded. It has no function that tells; glibc has.
     */
    private static boolean isMusl() {
        return LINKER.defaultLookup().find("gnu_get_libc_version").isEmpty();
    }

    private static String remedy() {
        return "Build the library with `make install-c`, and name it with -Darrowwood.library=PATH, or extract that of "
                + "the jar elsewhere with -Darrowwood.tmpdir=FOLDER.";
    }
}
