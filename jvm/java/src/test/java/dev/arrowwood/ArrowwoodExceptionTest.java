package dev.arrowwood;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.util.Optional;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;

/** All failures are found, whatever class of the JDK they are of. */
class ArrowwoodExceptionTest {
    /** An exception of a class. */
    private static Exception made(Class<?> type) throws ReflectiveOperationException {
        Constructor<?> constructor = type.getDeclaredConstructors()[0];
        Object[] arguments = new Object[constructor.getParameterCount()];
        for (int i = 0; i < arguments.length; i++) {
            Class<?> parameter = constructor.getParameterTypes()[i];
            if (parameter == String.class) {
                arguments[i] = "what is wrong";
            } else if (parameter == int.class) {
                arguments[i] = 2;
            } else if (parameter == IOException.class) {
                arguments[i] = new IOException("what is wrong");
            } else {
                arguments[i] = ArrowwoodException.Code.IO;
            }
        }
        return (Exception) constructor.newInstance(arguments);
    }

    @Test
    void failuresAreFoundAmongExceptions() throws Exception {
        Class<?>[] classes = ArrowwoodException.class.getPermittedSubclasses();
        assertTrue(classes.length > 10);
        for (Class<?> type : classes) {
            Exception one = made(type);
            assertSame(one, ArrowwoodException.find(one).orElseThrow());
            assertSame(one, ArrowwoodException.find(new ExecutionException(one)).orElseThrow());
            assertSame(
                    one,
                    ArrowwoodException.find(new CompletionException(new RuntimeException(one)))
                            .orElseThrow());
            try {
                throw one;
            } catch (Exception e) {
                assertEquals(
                        "what is wrong",
                        ArrowwoodException.find(e).orElseThrow().getMessage());
            }
        }
        Exception first = new Exception();
        first.initCause(new Exception(first));
        for (Throwable other : new Throwable[] {null, new IOException(), first}) {
            assertEquals(Optional.empty(), ArrowwoodException.find(other));
        }
    }
}
