// A Java process whose memory is not in its heap, for the core java17-offheap: direct buffers that a map keeps for
// sessions that are over. Beside them a cache in the heap, class loaders, a soft, a weak and a local reference.
// When all are where they shall be, "ready" is printed.
import java.lang.ref.SoftReference;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

public class OffHeap {
    static final int SESSIONS = 150, BUFFER = 64 << 10, ENTRIES = 500, ENTRY_BYTES = 256, LOADERS = 20;

    static class Session {
        final String name;
        final ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER);

        Session(int number) {
            name = "session-" + number;
            while (buffer.hasRemaining()) buffer.put((byte) (number + 1));
        }
    }

    static class Sessions {
        final Map<String, Session> open = new HashMap<>();
    }

    static class Entry {
        final byte[] data = new byte[ENTRY_BYTES];
        long used;
    }

    // Each defines a class of its own.
    static class PluginLoader extends ClassLoader {
        PluginLoader() { super(null); }

        Object make(byte[] code) throws Exception {
            var constructor = defineClass(null, code, 0, code.length).getDeclaredConstructor();
            constructor.setAccessible(true);
            return constructor.newInstance();
        }
    }

    static class OnStack { long one = 1, two = 2; }
    static class Softly { int value = 3; }
    static class Weakly { int value = 4; }
    static class Garbage { final long[] some = new long[4]; }

    static final Sessions SESSIONS_OF_ALL = new Sessions();
    static final List<Entry> CACHE = new ArrayList<>();
    static final List<Object> PLUGINS = new ArrayList<>();
    static SoftReference<Softly> soft;
    static WeakReference<Weakly> weak;

    static void hold(Object local) throws Exception {
        System.out.println("ready");
        Thread.sleep(Long.MAX_VALUE);
        System.out.println(local);
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < SESSIONS; i++) SESSIONS_OF_ALL.open.put("session-" + i, new Session(i));
        for (int i = 0; i < ENTRIES; i++) CACHE.add(new Entry());
        byte[] code = OffHeap.class.getResourceAsStream("Plugin.class").readAllBytes();
        for (int i = 0; i < LOADERS; i++) PLUGINS.add(new PluginLoader().make(code));
        weak = new WeakReference<>(new Weakly());
        System.gc();
        soft = new SoftReference<>(new Softly());
        for (int i = 0; i < 100; i++) new Garbage();
        hold(new OnStack());
    }
}

class Plugin {
    final int[] own = new int[8];
}
