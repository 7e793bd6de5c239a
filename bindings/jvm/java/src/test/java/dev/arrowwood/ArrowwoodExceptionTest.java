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

/** Tests that {@link ArrowwoodException#find} finds exceptions of all classes, even as a cause of others. */
class ArrowwoodExceptionTest {
    private static final String MESSAGE = "what is wrong";
    /** Any {@code errno}. */
    private static final int OS_ERROR = 2;

    /** Calls the constructor of an exception class, whatever its parameters are. */
    private static Exception newInstance(Class<?> type) throws ReflectiveOperationException {
        Constructor<?> constructor = type.getDeclaredConstructors()[0];
        Object[] arguments = new Object[constructor.getParameterCount()];
        for (int i = 0; i < arguments.length; i++) {
            Class<?> parameter = constructor.getParameterTypes()[i];
            if (parameter == String.class) {
                arguments[i] = MESSAGE;
            } else if (parameter == int.class) {
                arguments[i] = OS_ERROR;
            } else if (parameter == IOException.class) {
                arguments[i] = new IOException(MESSAGE);
            } else {
                arguments[i] = ArrowwoodException.Code.IO;
            }
        }
        return (Exception) constructor.newInstance(arguments);
    }

    @Test
    void findReturnsExceptionsOfAllClasses() throws Exception {
        Class<?>[] classes = ArrowwoodException.class.getPermittedSubclasses();
        assertTrue(classes.length > 10);
        for (Class<?> type : classes) {
            Exception exception = newInstance(type);
            assertFinds(exception, exception);
            assertFinds(exception, new ExecutionException(exception));
            assertFinds(exception, new CompletionException(new RuntimeException(exception)));
            try {
                throw exception;
            } catch (Exception e) {
                assertEquals(MESSAGE, ArrowwoodException.find(e).orElseThrow().getMessage());
            }
        }
        Exception cyclic = new Exception();
        cyclic.initCause(new Exception(cyclic));
        for (Throwable other : new Throwable[] {null, new IOException(), cyclic}) {
            assertEquals(Optional.empty(), ArrowwoodException.find(other));
        }
    }

    private static void assertFinds(Exception expected, Throwable thrown) {
        assertSame(expected, ArrowwoodException.find(thrown).orElseThrow());
    }
}
