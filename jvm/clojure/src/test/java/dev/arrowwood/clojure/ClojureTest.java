package dev.arrowwood.clojure;

import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

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

/** Each {@code deftest} as a test. Those of tech.ml.dataset run where {@code ARROWWOOD_TMD_CP} names a class path with it. */
class ClojureTest {
    private static final String TMD = System.getenv("ARROWWOOD_TMD_CP");
    /** That of jvm/pom.xml, which dynamic tests don't have. */
    private static final Duration LIMIT = Duration.ofSeconds(480);

    @BeforeAll
    static void addTechMlDataset() throws MalformedURLException {
        if (TMD == null) {
            System.out.println("test-jvm: tech.ml.dataset left out: it is not on Maven Central; "
                    + "set ARROWWOOD_TMD_CP to a class path with it");
            return;
        }
        List<URL> urls = new ArrayList<>();
        for (String element : TMD.split(File.pathSeparator)) {
            urls.add(new File(element).toURI().toURL());
        }
        ClassLoader tests = ClojureTest.class.getClassLoader();
        Thread.currentThread().setContextClassLoader(new URLClassLoader(urls.toArray(URL[]::new), tests));
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
    Stream<DynamicTest> page() {
        return tests("arrowwood.page-test");
    }

    @TestFactory
    Stream<DynamicTest> live() {
        return tests("arrowwood.live-test");
    }

    @TestFactory
    Stream<DynamicTest> techMlDataset() {
        return TMD == null ? Stream.of() : tests("arrowwood.tmd-test");
    }

    private static Stream<DynamicTest> tests(String namespace) {
        IFn require = Clojure.var("clojure.core", "require");
        require.invoke(Clojure.read("arrowwood.runner"));
        require.invoke(Clojure.read(namespace));
        List<?> names = (List<?>) Clojure.var("arrowwood.runner", "names").invoke(namespace);
        assertTrue(!names.isEmpty(), namespace + " has no tests");
        IFn run = Clojure.var("arrowwood.runner", "run");
        return names.stream()
                .map(name -> DynamicTest.dynamicTest(name.toString(), () -> {
                    Object failures = assertTimeoutPreemptively(LIMIT, () -> run.invoke(namespace, name));
                    assertTrue(failures == null, () -> failures.toString());
                }));
    }
}
