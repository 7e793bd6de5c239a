import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.channels.SeekableByteChannel;

/** A file that prints {@code read} before each read, and waits for a line of input: tests/python/test_pauses.py. */
final class PausedChannel implements SeekableByteChannel {
    private final SeekableByteChannel file;
    private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));

    PausedChannel(SeekableByteChannel file) {
        this.file = file;
    }

    @Override
    public int read(ByteBuffer into) throws IOException {
        System.out.println("read");
        if (input.readLine() == null) {
            throw new EOFException("standard input ended during a pause");
        }
        return file.read(into);
    }

    @Override
    public int write(ByteBuffer from) throws IOException {
        return file.write(from);
    }

    @Override
    public long position() throws IOException {
        return file.position();
    }

    @Override
    public SeekableByteChannel position(long position) throws IOException {
        file.position(position);
        return this;
    }

    @Override
    public long size() throws IOException {
        return file.size();
    }

    @Override
    public SeekableByteChannel truncate(long size) throws IOException {
        file.truncate(size);
        return this;
    }

    @Override
    public boolean isOpen() {
        return file.isOpen();
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
