package dev.arrowwood.arrow;

import dev.arrowwood.Arrowwood;
import dev.arrowwood.Dataset;
import dev.arrowwood.TableWriter;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.apache.arrow.c.ArrowArray;
import org.apache.arrow.c.ArrowArrayStream;
import org.apache.arrow.c.ArrowSchema;
import org.apache.arrow.c.Data;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.dictionary.DictionaryProvider;
import org.apache.arrow.vector.ipc.ArrowReader;

/**
 * Passes data between Arrowwood and Arrow Java by Arrow's C interfaces, without copying.
 *
 * <p>Arrow Java needs {@code --add-opens=java.base/java.nio=ALL-UNNAMED}, and {@code arrow-memory-unsafe} or
 * {@code arrow-memory-netty}. It accesses memory by raw addresses, unchecked; what this class hands to it keeps the
 * mapping, even after the dataset is closed.
 */
public final class ArrowJava {
    // Sizes of the structs of Arrow's C interfaces, in bytes.
    private static final long STREAM_SIZE = 40;
    private static final long ARRAY_SIZE = 80;
    private static final long SCHEMA_SIZE = 72;

    private ArrowJava() {}

    /**
     * Returns a reader of a dataset's batches. Vectors lie in the mapped file; values are checked batch by batch.
     *
     * @param dataset the dataset; the reader doesn't depend on its arena
     * @param allocator the allocator that accounts for the vectors
     * @return a reader, to be closed by the caller
     */
    public static ArrowReader reader(Dataset dataset, BufferAllocator allocator) {
        try (ArrowArrayStream stream = ArrowArrayStream.allocateNew(allocator)) {
            dataset.exportStream(segment(stream.memoryAddress(), STREAM_SIZE));
            // The reader moves the stream's contents to a struct of its own.
            return Data.importArrayStream(allocator, stream);
        }
    }

    /**
     * Imports all batches of a reader. The reader is closed when it is read to its end.
     *
     * @param reader the reader, which belongs to the dataset from now on
     * @param allocator the allocator that accounts for its vectors; it can be closed once the arena is
     * @param arena the arena that ends the dataset, and releases the vectors
     * @return the dataset
     * @throws IllegalArgumentException if the reader fails (the message is its own)
     */
    public static Dataset dataset(ArrowReader reader, BufferAllocator allocator, Arena arena) {
        try (ArrowArrayStream stream = ArrowArrayStream.allocateNew(allocator)) {
            Data.exportArrayStream(allocator, reader, stream);
            return Arrowwood.importStream(segment(stream.memoryAddress(), STREAM_SIZE), arena);
        }
    }

    /**
     * Imports the rows of a root. They are shared with it: the root may be closed, and must not be written to before
     * the arena ends.
     *
     * @param root the root
     * @param dictionaries the dictionaries of its encoded vectors; null if there are none
     * @param allocator the allocator that accounts for its vectors; it can be closed once the arena is
     * @param arena the arena that ends the dataset, and releases the vectors
     * @return the dataset
     */
    public static Dataset dataset(
            VectorSchemaRoot root, DictionaryProvider dictionaries, BufferAllocator allocator, Arena arena) {
        try (ExportedRoot exported = new ExportedRoot(root, dictionaries, allocator)) {
            return Arrowwood.importArray(exported.array(), exported.schema(), arena);
        }
    }

    /**
     * Appends all rows of a root to a table, or none. Columns are matched by name.
     *
     * @param writer the table's writer
     * @param root the root
     * @param dictionaries the dictionaries of its encoded vectors; null if there are none
     * @param allocator the allocator that accounts for its vectors
     * @throws IllegalArgumentException if columns differ, a null is in a column without nulls, a value is out of
     *     range, or a row out of order
     */
    public static void append(
            TableWriter writer, VectorSchemaRoot root, DictionaryProvider dictionaries, BufferAllocator allocator) {
        try (ExportedRoot exported = new ExportedRoot(root, dictionaries, allocator)) {
            writer.appendArray(exported.array(), exported.schema());
        }
    }

    /**
     * Appends all rows of a reader to a table, or none.
     *
     * @param writer the table's writer
     * @param reader the reader, which is closed
     * @param allocator the allocator that accounts for its vectors
     * @throws IllegalArgumentException if the reader fails (the message is its own); as
     *     {@link #append(TableWriter, VectorSchemaRoot, DictionaryProvider, BufferAllocator)}
     */
    public static void append(TableWriter writer, ArrowReader reader, BufferAllocator allocator) {
        try (ArrowArrayStream stream = ArrowArrayStream.allocateNew(allocator)) {
            Data.exportArrayStream(allocator, reader, stream);
            writer.appendStream(segment(stream.memoryAddress(), STREAM_SIZE));
        }
    }

    /** A root as structs of the C data interface. Closing it releases what was not imported. */
    private static final class ExportedRoot implements AutoCloseable {
        private final ArrowArray array;
        private final ArrowSchema schema;

        ExportedRoot(VectorSchemaRoot root, DictionaryProvider dictionaries, BufferAllocator allocator) {
            this.array = ArrowArray.allocateNew(allocator);
            this.schema = ArrowSchema.allocateNew(allocator);
            try {
                Data.exportVectorSchemaRoot(allocator, root, dictionaries, array, schema);
            } catch (RuntimeException | Error e) {
                close();
                throw e;
            }
        }

        MemorySegment array() {
            return segment(array.memoryAddress(), ARRAY_SIZE);
        }

        MemorySegment schema() {
            return segment(schema.memoryAddress(), SCHEMA_SIZE);
        }

        @Override
        public void close() {
            // An importer takes the array, whose release is a no-op then, and leaves the schema.
            schema.release();
            schema.close();
            array.release();
            array.close();
        }
    }

    private static MemorySegment segment(long address, long size) {
        return MemorySegment.ofAddress(address).reinterpret(size);
    }
}
