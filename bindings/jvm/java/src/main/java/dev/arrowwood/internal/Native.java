package dev.arrowwood.internal;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.arrowwood.ArrowwoodException;
import dev.arrowwood.ArrowwoodException.Code;
import dev.arrowwood.Progress;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * Binds the functions of {@code arrowwood.h}.
 *
 * <p>Most of them store their result where an argument points to, take an {@code arrowwood_error} as their last
 * argument, and return an error code. {@link #call}, {@link #run} and their variants provide the memory for that, as a
 * {@link Call}; its {@link Call#check} throws failures as exceptions:
 *
 * <pre>{@code
 * long rows = Native.call(call -> {
 *     call.check((int) Native.ROWS.invokeExact(handle, call.out, call.error));
 *     return call.out.get(JAVA_LONG, 0);
 * });
 * }</pre>
 */
public final class Native {
    /** The error code of functions that have succeeded: ARROWWOOD_ERROR_NONE. */
    public static final int SUCCESS = 0;

    public static final MethodHandle VERSION = Library.function("arrowwood_version", FunctionDescriptor.of(ADDRESS));
    static final MethodHandle ERROR_CLEAR = freeFunction("arrowwood_error_clear");
    static final MethodHandle STRING_FREE = freeFunction("arrowwood_string_free");
    public static final MethodHandle LEAVE_SIGBUS_ALONE = function("arrowwood_leave_sigbus_alone");
    public static final MethodHandle COPY = function("arrowwood_copy", ADDRESS, ADDRESS, JAVA_LONG);

    public static final MethodHandle OPEN = function("arrowwood_open", ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle OPEN_PATHS =
            function("arrowwood_open_paths", ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
    public static final MethodHandle OPEN_MEMORY =
            function("arrowwood_open_memory", ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle IMPORT_STREAM = function("arrowwood_import_stream", ADDRESS, ADDRESS);
    public static final MethodHandle IMPORT_ARRAY = function("arrowwood_import_array", ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle READ_CSV = function("arrowwood_read_csv", ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle WRITE = function("arrowwood_write", ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle SCHEMA_PARSE = function("arrowwood_schema_parse", ADDRESS, ADDRESS);

    public static final MethodHandle DATASET_FREE = freeFunction("arrowwood_dataset_free");
    public static final MethodHandle CLONE = function("arrowwood_dataset_clone", ADDRESS, ADDRESS);
    public static final MethodHandle ROWS = function("arrowwood_dataset_num_rows", ADDRESS, ADDRESS);
    public static final MethodHandle BATCHES = function("arrowwood_dataset_num_batches", ADDRESS, ADDRESS);
    public static final MethodHandle SCHEMA = function("arrowwood_dataset_schema", ADDRESS, ADDRESS);
    public static final MethodHandle FIRST_ROW = function("arrowwood_dataset_first_row", ADDRESS, ADDRESS);
    public static final MethodHandle SORTED_BY = function("arrowwood_dataset_sorted_by", ADDRESS, ADDRESS);
    public static final MethodHandle BYTES = function("arrowwood_dataset_bytes", ADDRESS, ADDRESS);
    public static final MethodHandle FOOTPRINT =
            function("arrowwood_dataset_footprint", ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle SELECT =
            function("arrowwood_dataset_select", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle SELECT_NAMES =
            function("arrowwood_dataset_select_names", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle SLICE =
            function("arrowwood_dataset_slice", ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS);
    public static final MethodHandle CONCAT = function("arrowwood_dataset_concat", ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle REFRESH = function("arrowwood_dataset_refresh", ADDRESS, ADDRESS);
    public static final MethodHandle CELLS =
            function("arrowwood_dataset_cells", ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG);
    public static final MethodHandle VALUE =
            function("arrowwood_dataset_value", ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle DISPLAY =
            function("arrowwood_dataset_display", ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS);
    public static final MethodHandle MESSAGES = function("arrowwood_dataset_messages", ADDRESS, ADDRESS);
    public static final MethodHandle VALIDATE = function("arrowwood_dataset_validate", ADDRESS, ADDRESS, ADDRESS);

    public static final MethodHandle STREAM = function("arrowwood_dataset_stream", ADDRESS, JAVA_INT, ADDRESS);
    public static final MethodHandle CHUNKS =
            function("arrowwood_dataset_chunks", ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle CHUNKS_FREE = freeFunction("arrowwood_chunks_free");

    public static final MethodHandle REDUCE =
            function("arrowwood_dataset_reduce", ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS);
    public static final MethodHandle QUANTILE =
            function("arrowwood_dataset_quantile", ADDRESS, JAVA_LONG, JAVA_DOUBLE, ADDRESS);
    public static final MethodHandle APPROX_QUANTILE =
            function("arrowwood_dataset_approx_quantile", ADDRESS, JAVA_LONG, JAVA_DOUBLE, ADDRESS);
    public static final MethodHandle TAKE = function("arrowwood_dataset_take", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle SAMPLE =
            function("arrowwood_dataset_sample", ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS);
    public static final MethodHandle SHUFFLE = function("arrowwood_dataset_shuffle", ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle BETWEEN =
            function("arrowwood_dataset_between", ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle VALUE_COUNTS =
            function("arrowwood_dataset_value_counts", ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle DESCRIBE = function("arrowwood_dataset_describe", ADDRESS, ADDRESS);
    public static final MethodHandle COLLECT = function("arrowwood_dataset_collect", ADDRESS, ADDRESS);
    public static final MethodHandle FILTER = function("arrowwood_dataset_filter", ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle AGGREGATE =
            function("arrowwood_dataset_aggregate", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);

    static final MethodHandle COMPARE = function("arrowwood_predicate_compare", ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle IN = function("arrowwood_predicate_in", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle IS_NULL = function("arrowwood_predicate_null", ADDRESS, ADDRESS);
    static final MethodHandle AND = function("arrowwood_predicate_and", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle OR = function("arrowwood_predicate_or", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle NOT = function("arrowwood_predicate_not", ADDRESS, ADDRESS);
    static final MethodHandle PREDICATE_FREE = freeFunction("arrowwood_predicate_free");

    public static final MethodHandle WRITER_OPEN =
            function("arrowwood_writer_open", ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_SCHEMA = function("arrowwood_writer_schema", ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_APPEND = function("arrowwood_writer_append", ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_APPEND_STREAM =
            function("arrowwood_writer_append_stream", ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_APPEND_DATASET =
            function("arrowwood_writer_append_dataset", ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_APPEND_ROW =
            function("arrowwood_writer_append_row", ADDRESS, ADDRESS, JAVA_LONG);
    public static final MethodHandle WRITER_COMMIT = function("arrowwood_writer_commit", ADDRESS, JAVA_INT);
    public static final MethodHandle WRITER_COMMIT_WITH = function("arrowwood_writer_commit_with", ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_POSITIONS = function("arrowwood_writer_positions", ADDRESS, ADDRESS);
    public static final MethodHandle DATASET_POSITIONS = function("arrowwood_dataset_positions", ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_WAIT_DURABLE = function("arrowwood_writer_wait_durable", ADDRESS);
    public static final MethodHandle WRITER_SYNC = function("arrowwood_writer_sync", ADDRESS);
    public static final MethodHandle WRITER_ROLLBACK = function("arrowwood_writer_rollback", ADDRESS);
    public static final MethodHandle WRITER_PROGRESS = function("arrowwood_writer_progress", ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_COMPACT =
            function("arrowwood_writer_compact", ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle WRITER_DROP_BEFORE =
            function("arrowwood_writer_drop_before", ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle WRITER_CLOSE = function("arrowwood_writer_close", ADDRESS);
    public static final MethodHandle WRITER_FREE = freeFunction("arrowwood_writer_free");

    public static final MethodHandle FOLLOW = function("arrowwood_follow", ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle FOLLOWER_NEXT = function("arrowwood_follower_next", ADDRESS, JAVA_LONG, ADDRESS);
    public static final MethodHandle FOLLOWER_NEXT_ROW = function("arrowwood_follower_next_row", ADDRESS, ADDRESS);
    public static final MethodHandle FOLLOWER_FREE = freeFunction("arrowwood_follower_free");

    public static final MethodHandle CHECK = function("arrowwood_check", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle REPAIR =
            function("arrowwood_repair", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle COMPACT = function("arrowwood_compact", ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    public static final MethodHandle TABLE_STAT = function("arrowwood_table_stat", ADDRESS, ADDRESS);

    /** {@code arrowwood_error}. */
    public static final Struct ERROR =
            new Struct(JAVA_INT.withName("code"), JAVA_INT.withName("os_error"), ADDRESS.withName("message"));

    private static final long ERROR_CODE = ERROR.offset("code");
    private static final long ERROR_OS_ERROR = ERROR.offset("os_error");
    private static final long ERROR_MESSAGE = ERROR.offset("message");

    // Values of errno on Linux.
    private static final int ENOMEM = 12;
    private static final int ENFILE = 23;
    private static final int EMFILE = 24;

    /** Errors of system calls for which memory, mappings or file descriptors have run out. */
    private static final Set<Integer> EXHAUSTED = Set.of(ENOMEM, ENFILE, EMFILE);

    /** The number of retries; the pauses before them double, and add up to 1.3 seconds. */
    private static final int MAX_RETRIES = 8;

    /** The pause before the first retry. */
    private static final long FIRST_PAUSE_MILLIS = 5;

    static {
        // Loads the classes of exceptions now, because loading a class needs a file descriptor.
        ArrowwoodException.of(Code.IO, 0, Messages.inJava(""));
    }

    private Native() {}

    /** Finds a function that takes these parameters and then an error, and returns an error code. */
    private static MethodHandle function(String name, MemoryLayout... parameters) {
        return Library.function(
                name, FunctionDescriptor.of(JAVA_INT, parameters).appendArgumentLayouts(ADDRESS));
    }

    /** Finds a function that frees a handle. */
    private static MethodHandle freeFunction(String name) {
        return Library.function(name, FunctionDescriptor.ofVoid(ADDRESS));
    }

    /** Calls the library, and returns a result. */
    public interface Work<T> {
        T run(Call call) throws Throwable;
    }

    /** Calls the library for its effect. */
    public interface Action {
        void run(Call call) throws Throwable;
    }

    /**
     * The memory of one call of the library, freed when the call ends: {@link #out} receives its result,
     * {@link #error} its failure, and {@link #arena} holds the arguments that Java's objects are copied to.
     */
    public static final class Call implements AutoCloseable {
        /** The largest result that {@link #out} receives. */
        private static final long RESULT_SIZE = Values.VALUE.size();

        /** Arrays of a few more elements exceed a limit of the JVM. */
        private static final int MAX_ARRAY_LENGTH = Integer.MAX_VALUE - 8;

        public final Arena arena = Arena.ofConfined();
        /** Receives a handle, a number, a string or an {@code arrowwood_value}; zeroed. */
        public final MemorySegment out;
        /** An empty {@code arrowwood_error}. */
        public final MemorySegment error;

        private Call() {
            // One allocation, because this runs for each cell that is read.
            MemorySegment memory = arena.allocate(RESULT_SIZE + ERROR.size(), Long.BYTES);
            out = memory.asSlice(0, RESULT_SIZE);
            error = memory.asSlice(RESULT_SIZE, ERROR.size());
        }

        /** Throws {@link #error} as an exception, unless the call returned {@link #SUCCESS}. */
        public void check(int errorCode) throws Throwable {
            if (errorCode != SUCCESS) {
                throw failure(error);
            }
        }

        /** Copies a text as NUL-terminated UTF-8. */
        public MemorySegment text(String text) {
            if (text.indexOf('\0') >= 0) {
                throw new ArrowwoodException.InvalidArgument(
                        "a name or path with a NUL character: " + text.replace('\0', '?'));
            }
            byte[] bytes = Values.utf8(text);
            MemorySegment terminated = arena.allocate(bytes.length + 1L);
            MemorySegment.copy(bytes, 0, terminated, JAVA_BYTE, 0, bytes.length);
            return terminated;
        }

        /** Copies a path of the default file system; refuses other file systems, such as archives. */
        public MemorySegment path(Path path) {
            return text(systemPath(path));
        }

        /** Copies paths as an array of strings; as {@link #path}. */
        public MemorySegment paths(List<Path> paths) {
            return texts(paths.stream().map(Call::systemPath).toList());
        }

        private static String systemPath(Path path) {
            FileSystem fileSystem = path.getFileSystem();
            if (fileSystem != FileSystems.getDefault()) {
                throw new ArrowwoodException.InvalidArgument(path + ": the path is of a file system '"
                        + fileSystem.provider().getScheme()
                        + "', and files are mapped where the operating system has them: copy it to "
                        + "one of its directories");
            }
            return path.toString();
        }

        /** Copies texts as an array of strings; returns NULL if there are none. */
        public MemorySegment texts(Iterable<String> texts) {
            List<MemorySegment> pointers = new ArrayList<>();
            texts.forEach(text -> pointers.add(text(text)));
            if (pointers.isEmpty()) {
                return MemorySegment.NULL;
            }
            MemorySegment array = arena.allocate(ADDRESS, pointers.size());
            for (int i = 0; i < pointers.size(); i++) {
                array.setAtIndex(ADDRESS, i, pointers.get(i));
            }
            return array;
        }

        /** Copies bytes; the copy lives until the call ends. */
        public MemorySegment copy(byte[] bytes) {
            return arena.allocateFrom(JAVA_BYTE, bytes);
        }

        /** Returns the string in {@link #out}, and frees it. */
        public String takeText() throws Throwable {
            MemorySegment text = out.get(ADDRESS, 0);
            try {
                return string(text);
            } finally {
                STRING_FREE.invokeExact(text);
            }
        }

        /** Copies bytes that {@code owner} frees; they may be mapped from a file. */
        byte[] bytes(long address, long length, Arena owner) throws Throwable {
            if (length == 0) {
                return new byte[0];
            }
            if (length > MAX_ARRAY_LENGTH) {
                throw ArrowwoodException.of(
                        Code.UNSUPPORTED, 0, "a value of " + length + " bytes is too long for a Java array");
            }
            MemorySegment copy = arena.allocate(length);
            // The segment has the owner's scope, so that the owner is neither closed nor collected during the copy.
            MemorySegment bytes = MemorySegment.ofAddress(address).reinterpret(length, owner, null);
            check((int) COPY.invokeExact(copy, bytes, length, error));
            return copy.toArray(JAVA_BYTE);
        }

        @Override
        public void close() {
            arena.close();
        }
    }

    /** Returns the exception for an error that the library filled, and clears the error. */
    public static RuntimeException failure(MemorySegment error) throws Throwable {
        MemorySegment message = error.get(ADDRESS, ERROR_MESSAGE);
        String text = message.address() == 0 ? "no message" : string(message);
        Code code = Code.of(error.get(JAVA_INT, ERROR_CODE));
        RuntimeException failure =
                ArrowwoodException.of(code, error.get(JAVA_INT, ERROR_OS_ERROR), Messages.inJava(text));
        ERROR_CLEAR.invokeExact(error);
        return failure;
    }

    /** Returns the failure of a read that faulted and succeeds when repeated. */
    public static RuntimeException transientFault() {
        return ArrowwoodException.of(
                Code.FILE_CHANGED,
                0,
                "a file could not be read for a moment: it was truncated, or its disk fails; open it again");
    }

    /** Reads a NUL-terminated string of the library. */
    public static String string(MemorySegment text) {
        return text.reinterpret(Long.MAX_VALUE).getString(0);
    }

    /** Calls the library, and returns a result. */
    public static <T> T call(Work<T> work) {
        try (Call call = new Call()) {
            return work.run(call);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Calls the library for its effect. */
    public static void run(Action action) {
        try (Call call = new Call()) {
            action.run(call);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** As {@link #retry}, but failed system calls throw the checked exception: for functions that take a path. */
    public static <T> T callOnPath(Work<T> work) throws IOException {
        try {
            return retry(work);
        } catch (ArrowwoodException.Io e) {
            throw e.getCause();
        }
    }

    /**
     * As {@link #call}, but if the system has run out of a resource that unreachable datasets may hold, collects
     * garbage and tries again, as {@code FileChannel.map} does.
     */
    public static <T> T retry(Work<T> work) {
        for (int attempt = 0; ; attempt++) {
            try {
                return call(work);
            } catch (ArrowwoodException.Io e) {
                if (attempt == MAX_RETRIES || !isExhausted(e)) {
                    throw e;
                }
                collectGarbage(attempt);
            }
        }
    }

    private static boolean isExhausted(ArrowwoodException failure) {
        return EXHAUSTED.contains(failure.osError().orElse(0));
    }

    /** Runs the garbage collector, and waits, longer with each attempt, for it to free unreachable datasets. */
    private static void collectGarbage(int attempt) {
        System.gc();
        try {
            Thread.sleep(FIRST_PAUSE_MILLIS << attempt);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns the handle with its lifetime bound to {@code arena}, which frees it. */
    public static MemorySegment owned(MemorySegment handle, Arena arena, MethodHandle free) {
        try {
            return handle.reinterpret(arena, segment -> free(free, segment));
        } catch (RuntimeException e) {
            free(free, handle);
            throw e;
        }
    }

    /** Frees a handle by the library's function for its kind. */
    public static void free(MethodHandle free, MemorySegment handle) {
        try {
            free.invokeExact(handle);
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /** Returns an {@code arrowwood_progress} that reports to {@code progress} until the call ends. */
    public static MemorySegment progress(Call call, Progress progress) throws Throwable {
        if (progress == Progress.NONE) {
            return MemorySegment.NULL;
        }
        Progress guarded = (done, total) -> {
            try {
                progress.at(done, total);
            } catch (Throwable e) {
                // Ignored, as documented: an exception that leaves an upcall ends the JVM.
            }
        };
        MethodHandle method = MethodHandles.lookup()
                .findVirtual(Progress.class, "at", MethodType.methodType(void.class, long.class, long.class));
        MethodHandle bound = MethodHandles.dropArguments(method.bindTo(guarded), 0, MemorySegment.class);
        return Linker.nativeLinker()
                .upcallStub(bound, FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG, JAVA_LONG), call.arena);
    }
}
