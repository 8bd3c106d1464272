// Memory of a Java process outside of its heap, of known sizes: direct buffers, a mapped file, Unsafe's blocks, and a class that
// many loaders have. Prints what it planted as JSON, then waits.
//   java -Xmx8m -XX:+UseSerialGC -XX:NativeMemoryTracking=summary Buffers FILE

import java.io.InputStream;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

public class Buffers {
    static class Pool {
        final ByteBuffer[] all = new ByteBuffer[3];
    }

    static final int[] SIZES = {4096, 70_001, 300_000};
    static final Pool POOL = new Pool();
    static final Object[] LOADED = new Object[17];
    static ByteBuffer slice;
    static MappedByteBuffer mapped;

    static class Apart extends ClassLoader {
        Apart() {
            super(null);
        }

        Class<?> define(byte[] code) {
            return defineClass("Payload", code, 0, code.length);
        }
    }

    static long address(Buffer buffer) throws Exception {
        var unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        var field = Buffer.class.getDeclaredField("address");
        @SuppressWarnings("deprecation")
        long at = ((sun.misc.Unsafe) unsafe.get(null)).objectFieldOffset(field);
        return ((sun.misc.Unsafe) unsafe.get(null)).getLong(buffer, at);
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < SIZES.length; i++) {
            POOL.all[i] = ByteBuffer.allocateDirect(SIZES[i]);
            while (POOL.all[i].hasRemaining()) {
                POOL.all[i].put((byte) (i + 1));
            }
        }
        slice = POOL.all[2].duplicate().position(1000).limit(2000).slice();
        Path file = Path.of(args[0]);
        Files.write(file, new byte[20_000]);
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, 20_000);
        }
        byte[] code;
        try (InputStream in = Buffers.class.getResourceAsStream("Payload.class")) {
            code = in.readAllBytes();
        }
        for (int i = 0; i < LOADED.length; i++) {
            LOADED[i] = new Apart().define(code);
        }
        StringBuilder out = new StringBuilder("{\"buffers\": [");
        for (int i = 0; i < SIZES.length; i++) {
            out.append(i == 0 ? "" : ", ").append("{\"address\": ").append(address(POOL.all[i])).append(", \"size\": ").append(SIZES[i]).append("}");
        }
        out.append("], \"slice\": ").append(address(slice)).append(", \"mapped\": ").append(address(mapped));
        out.append(", \"mapped_size\": 20000, \"loaders\": ").append(LOADED.length).append("}");
        System.out.println(out);
        System.out.flush();
        Thread.sleep(Long.MAX_VALUE);
    }
}

class Payload {
    public Payload() {}
}
