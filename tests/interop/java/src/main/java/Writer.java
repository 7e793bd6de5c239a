import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.*;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.dictionary.Dictionary;
import org.apache.arrow.vector.dictionary.DictionaryProvider;
import org.apache.arrow.vector.ipc.ArrowFileWriter;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.ipc.ArrowWriter;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.DictionaryEncoding;
import org.apache.arrow.vector.types.pojo.FieldType;

/** Writes the rows that run.py expects as a file and as a stream. */
final class Writer {
    private static final DictionaryEncoding WORDS = new DictionaryEncoding(1, false, new ArrowType.Int(8, true));

    private final IntVector i;
    private final BigIntVector n;
    private final Float8Vector f;
    private final VarCharVector s;
    private final TinyIntVector d;
    private final ListVector l;
    private final BitVector b;
    private final VectorSchemaRoot root;
    private final DictionaryProvider dictionaries;

    private Writer(BufferAllocator allocator) {
        i = new IntVector("i", allocator);
        n = new BigIntVector("n", allocator);
        f = new Float8Vector("f", allocator);
        s = new VarCharVector("s", allocator);
        d = new TinyIntVector("d", new FieldType(true, WORDS.getIndexType(), WORDS), allocator);
        l = ListVector.empty("l", allocator);
        b = new BitVector("b", allocator);
        l.addOrGetVector(FieldType.nullable(new ArrowType.Int(32, true)));
        root = new VectorSchemaRoot(List.<FieldVector>of(i, n, f, s, d, l, b));
        VarCharVector words = new VarCharVector("words", allocator);
        words.setSafe(0, "x".getBytes(UTF_8));
        words.setSafe(1, "y".getBytes(UTF_8));
        words.setValueCount(2);
        dictionaries = new DictionaryProvider.MapDictionaryProvider(new Dictionary(words, WORDS));
    }

    static void writeFiles(Path folder) throws Exception {
        Writer writer = new Writer(new RootAllocator());
        try (OutputStream out = Files.newOutputStream(folder.resolve("java.arrow"))) {
            writer.write(new ArrowFileWriter(writer.root, writer.dictionaries, Channels.newChannel(out)));
        }
        try (OutputStream out = Files.newOutputStream(folder.resolve("java.stream"))) {
            writer.write(new ArrowStreamWriter(writer.root, writer.dictionaries, out));
        }
    }

    private void write(ArrowWriter out) throws Exception {
        out.start();
        root.clear();
        setRow(1, (1L << 53) + 1, 0.5, "a", 0, List.of(1, 2), 1);
        root.getFieldVectors().forEach(vector -> vector.setNull(1));
        root.setRowCount(2);
        out.writeBatch();
        root.clear();
        setRow(-3, -1, -1.5, "ünï", 1, List.of(), 0);
        root.setRowCount(1);
        out.writeBatch();
        out.end();
        out.close();
    }

    /** Sets row 0 of a batch. */
    private void setRow(int i, long n, double f, String s, int d, List<Integer> l, int b) {
        root.getFieldVectors().forEach(FieldVector::allocateNew);
        this.i.setSafe(0, i);
        this.n.setSafe(0, n);
        this.f.setSafe(0, f);
        this.s.setSafe(0, s.getBytes(UTF_8));
        this.d.setSafe(0, d);
        int start = this.l.startNewValue(0);
        for (int item = 0; item < l.size(); item++) {
            ((IntVector) this.l.getDataVector()).setSafe(start + item, l.get(item));
        }
        this.l.endValue(0, l.size());
        this.b.setSafe(0, b);
    }
}
