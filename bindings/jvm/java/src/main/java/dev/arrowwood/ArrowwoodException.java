package dev.arrowwood;

import dev.arrowwood.internal.Messages;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;

/**
 * Implemented by all exceptions of Arrowwood. Each extends the JDK's exception for the same mistake, so
 * {@code catch (NoSuchFileException e)} and {@code catch (IndexOutOfBoundsException e)} work as expected.
 *
 * <p>Messages name the operation and the path, the expected and the actual state, and the remedy. They shorten long
 * values. Methods that take a path throw {@link NotFound}, {@link AccessDenied} and {@link FileSystem}, which are
 * checked; all other methods throw {@link Io} instead, with one of these as its cause.
 *
 * <p>An interface can't be caught. To catch all of them, catch {@code Exception}, and ask:
 *
 * <pre>{@code
 * } catch (Exception e) {
 *     if (ArrowwoodException.find(e).orElse(null) instanceof ArrowwoodException failure) {
 *         log(failure.code());
 *     } else {
 *         throw e;
 *     }
 * }
 * }</pre>
 */
public sealed interface ArrowwoodException {
    /**
     * Finds the failure in an exception and its causes: futures and streams wrap failures in their own exceptions.
     *
     * @param thrown the exception
     * @return the failure, or empty if there is none of Arrowwood's
     */
    static Optional<ArrowwoodException> find(Throwable thrown) {
        Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        // Causes can form a cycle.
        for (Throwable cause = thrown; cause != null && seen.add(cause); cause = cause.getCause()) {
            if (cause instanceof ArrowwoodException failure) {
                return Optional.of(failure);
            }
        }
        return Optional.empty();
    }

    /**
     * Returns the kind of failure.
     *
     * @return its code
     */
    Code code();

    /**
     * Returns the message.
     *
     * @return the result of {@link Throwable#getMessage}
     */
    String getMessage();

    /**
     * Returns the {@code errno} of the system call that failed.
     *
     * @return the number, or empty if no system call failed
     */
    default OptionalInt osError() {
        return OptionalInt.empty();
    }

    /** The kinds of failures: {@code arrowwood_error_code} of the C library. */
    enum Code {
        /** No such file, or no file matches. */
        NOT_FOUND(1),
        /** The operating system refused access. */
        PERMISSION_DENIED(2),
        /** The bytes violate the Arrow format, or are not Arrow data. */
        INVALID_DATA(3),
        /** Valid, but not supported by this version. */
        UNSUPPORTED(4),
        /** Two schemas that must agree differ. */
        SCHEMA_MISMATCH(5),
        /** No column has that name or number. */
        COLUMN_NOT_FOUND(6),
        /** No row, batch or item has that number. */
        ROW_OUT_OF_RANGE(7),
        /** An argument has an invalid value. */
        INVALID_ARGUMENT(8),
        /** The writer is unusable after an earlier failure. */
        CLOSED(9),
        /** Another process writes the table, or something is still in use. */
        BUSY(10),
        /** A mapped file was truncated or overwritten. */
        FILE_CHANGED(11),
        /** A copy is needed, and the options forbid it. */
        COPY_NEEDED(12),
        /** Any other failure of the operating system. */
        IO(13),
        /** A bug in Arrowwood; the message says where. */
        INTERNAL(14);

        /** The value of {@code enum arrowwood_error_code}. */
        final int number;

        Code(int number) {
            this.number = number;
        }

        /**
         * Returns the code for a number of the C library.
         *
         * @param number the value of {@code enum arrowwood_error_code}
         * @return the code; {@link #INTERNAL} if the number is unknown
         */
        public static Code of(int number) {
            for (Code code : values()) {
                if (code.number == number) {
                    return code;
                }
            }
            return INTERNAL;
        }
    }

    /**
     * Creates an exception. A failed system call becomes an {@link Io}, whose cause is the checked exception.
     *
     * @param code its code
     * @param osError the {@code errno} of the system call that failed, or 0
     * @param message its message
     * @return an exception that is also an {@code ArrowwoodException}
     */
    static RuntimeException of(Code code, int osError, String message) {
        return switch (code) {
            case NOT_FOUND -> new Io(new NotFound(message, osError), code, osError);
            case PERMISSION_DENIED -> new Io(new AccessDenied(message, osError), code, osError);
            case IO -> new Io(new FileSystem(message, osError), code, osError);
            case INVALID_DATA -> new InvalidData(message);
            case UNSUPPORTED -> new Unsupported(message);
            case SCHEMA_MISMATCH -> new SchemaMismatch(message);
            case COLUMN_NOT_FOUND -> new ColumnNotFound(message);
            case ROW_OUT_OF_RANGE -> new RowOutOfRange(message);
            case INVALID_ARGUMENT -> new InvalidArgument(message);
            case CLOSED -> new Closed(message);
            case BUSY -> new Busy(message);
            case FILE_CHANGED -> new FileChanged(message);
            case COPY_NEEDED -> new CopyNeeded(message);
            case INTERNAL -> new Internal(message);
        };
    }

    /** Returns an {@code errno}, or empty for 0. */
    private static OptionalInt optional(int osError) {
        return osError == 0 ? OptionalInt.empty() : OptionalInt.of(osError);
    }

    /** There is no such file, or no file matches. */
    final class NotFound extends NoSuchFileException implements ArrowwoodException {
        private static final long serialVersionUID = 1;
        /** The {@code errno}, 0 if there is none. */
        private final int osError;

        NotFound(String message, int osError) {
            super(null, null, Messages.shortened(message));
            this.osError = osError;
        }

        @Override
        public Code code() {
            return Code.NOT_FOUND;
        }

        @Override
        public String getMessage() {
            return getReason();
        }

        @Override
        public OptionalInt osError() {
            return optional(osError);
        }
    }

    /** The operating system refused access. */
    final class AccessDenied extends AccessDeniedException implements ArrowwoodException {
        private static final long serialVersionUID = 1;
        /** The {@code errno}, 0 if there is none. */
        private final int osError;

        AccessDenied(String message, int osError) {
            super(null, null, Messages.shortened(message));
            this.osError = osError;
        }

        @Override
        public Code code() {
            return Code.PERMISSION_DENIED;
        }

        @Override
        public String getMessage() {
            return getReason();
        }

        @Override
        public OptionalInt osError() {
            return optional(osError);
        }
    }

    /** Any other failure of the operating system. */
    final class FileSystem extends FileSystemException implements ArrowwoodException {
        private static final long serialVersionUID = 1;
        /** The {@code errno}, 0 if there is none. */
        private final int osError;

        FileSystem(String message, int osError) {
            super(null, null, Messages.shortened(message));
            this.osError = osError;
        }

        @Override
        public Code code() {
            return Code.IO;
        }

        @Override
        public String getMessage() {
            return getReason();
        }

        @Override
        public OptionalInt osError() {
            return optional(osError);
        }
    }

    /** A failure of the operating system, from a method that doesn't take a path. */
    final class Io extends UncheckedIOException implements ArrowwoodException {
        private static final long serialVersionUID = 1;
        /** The kind of failure. */
        private final Code code;
        /** The {@code errno}, 0 if there is none. */
        private final int osError;

        Io(IOException cause, Code code, int osError) {
            super(cause.getMessage(), cause);
            this.code = code;
            this.osError = osError;
        }

        @Override
        public Code code() {
            return code;
        }

        @Override
        public OptionalInt osError() {
            return optional(osError);
        }
    }

    /** The bytes violate the Arrow format, or are not Arrow data. */
    final class InvalidData extends RuntimeException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        InvalidData(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.INVALID_DATA;
        }
    }

    /** Valid, but not supported by this version. */
    final class Unsupported extends UnsupportedOperationException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        Unsupported(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.UNSUPPORTED;
        }
    }

    /** Two schemas that must agree differ; the message names the first difference. */
    final class SchemaMismatch extends IllegalArgumentException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        SchemaMismatch(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.SCHEMA_MISMATCH;
        }
    }

    /** No column has that name or number; the message names the existing columns. */
    final class ColumnNotFound extends IllegalArgumentException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        ColumnNotFound(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.COLUMN_NOT_FOUND;
        }
    }

    /** No row, batch or item has that number. */
    final class RowOutOfRange extends IndexOutOfBoundsException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        /**
         * Creates the exception, for libraries built on this one.
         *
         * @param message the argument and its mistake
         */
        public RowOutOfRange(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.ROW_OUT_OF_RANGE;
        }
    }

    /** An argument has an invalid value. */
    final class InvalidArgument extends IllegalArgumentException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        /**
         * Creates the exception, for libraries built on this one.
         *
         * @param message the argument and its mistake
         */
        public InvalidArgument(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.INVALID_ARGUMENT;
        }
    }

    /** The writer or follower is closed, or unusable after an earlier failure. */
    final class Closed extends IllegalStateException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        Closed(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.CLOSED;
        }
    }

    /** Another process writes the table, or something is still in use. */
    final class Busy extends IllegalStateException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        Busy(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.BUSY;
        }
    }

    /** A mapped file was truncated or overwritten; open it again. */
    final class FileChanged extends RuntimeException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        FileChanged(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.FILE_CHANGED;
        }
    }

    /** A copy is needed, and {@link ReadOption#STRICT} forbids it. */
    final class CopyNeeded extends RuntimeException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        CopyNeeded(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.COPY_NEEDED;
        }
    }

    /** A bug in Arrowwood; the message says where. */
    final class Internal extends RuntimeException implements ArrowwoodException {
        private static final long serialVersionUID = 1;

        Internal(String message) {
            super(Messages.shortened(message));
        }

        @Override
        public Code code() {
            return Code.INTERNAL;
        }
    }
}
