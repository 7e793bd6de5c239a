package dev.arrowwood.clojure;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import clojure.java.api.Clojure;
import clojure.lang.IFn;
import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/**
 * Runs each {@code deftest} as a test.
 *
 * <p>Tests of tech.ml.dataset run only if {@code ARROWWOOD_TMD_CP} is a class path with it.
 */
class ClojureTest {
    private static final String TMD_CLASS_PATH = System.getenv("ARROWWOOD_TMD_CP");
    /** The timeout of bindings/jvm/pom.xml, which JUnit doesn't apply to dynamic tests. */
    private static final Duration TIMEOUT = Duration.ofSeconds(480);

    @BeforeAll
    static void addTechMlDataset() throws MalformedURLException {
        if (TMD_CLASS_PATH == null) {
            System.out.println("test-jvm: tech.ml.dataset left out: it is not on Maven Central; "
                    + "set ARROWWOOD_TMD_CP to a class path with it");
            return;
        }
        List<URL> urls = new ArrayList<>();
        for (String element : TMD_CLASS_PATH.split(File.pathSeparator)) {
            urls.add(new File(element).toURI().toURL());
        }
        ClassLoader parent = ClojureTest.class.getClassLoader();
        Thread.currentThread().setContextClassLoader(new URLClassLoader(urls.toArray(URL[]::new), parent));
    }

    @TestFactory
    Stream<DynamicTest> core() {
        return tests("arrowwood.core-test");
    }

    @TestFactory
    Stream<DynamicTest> arguments() {
        return tests("arrowwood.arguments-test");
    }

    @TestFactory
    Stream<DynamicTest> types() {
        return tests("arrowwood.types-test");
    }

    @TestFactory
    Stream<DynamicTest> borders() {
        return tests("arrowwood.borders-test");
    }

    @TestFactory
    Stream<DynamicTest> docs() {
        return tests("arrowwood.docs-test");
    }

    @TestFactory
    Stream<DynamicTest> live() {
        return tests("arrowwood.live-test");
    }

    @TestFactory
    Stream<DynamicTest> techMlDataset() {
        return TMD_CLASS_PATH == null ? Stream.of() : tests("arrowwood.tmd-test");
    }

    private static Stream<DynamicTest> tests(String namespace) {
        IFn require = Clojure.var("clojure.core", "require");
        require.invoke(Clojure.read("arrowwood.runner"));
        require.invoke(Clojure.read(namespace));
        IFn testNames = Clojure.var("arrowwood.runner", "test-names");
        List<?> names = (List<?>) testNames.invoke(namespace);
        assertFalse(names.isEmpty(), namespace + " has no tests");
        return names.stream()
                .map(name -> DynamicTest.dynamicTest(name.toString(), () -> run(namespace, name.toString())));
    }

    private static void run(String namespace, String name) {
        IFn runTest = Clojure.var("arrowwood.runner", "run-test");
        Object failures = assertTimeoutPreemptively(TIMEOUT, () -> runTest.invoke(namespace, name));
        assertNull(failures);
    }
}
