// Program of the core java17-humongous: large arrays of G1, each with a region of its own whose end is lost, free regions,
// and strings with equal texts, each with a byte[] of its own.
//
//   java -XX:+UseG1GC -XX:G1HeapRegionSize=1m -Xms32m -Xmx32m Humongous.java > truth.json &
//   gcore -o core PID, then jcmd PID GC.heap_info for regions and bytes in use
//   coremap shrink core -o OUT --for heapstat,triage

import java.util.ArrayList;
import java.util.List;

public class Humongous {
    static final int ARRAYS = 10;
    static final int LENGTH = (1 << 20) + 400_000;
    static final int STRINGS = 5_000;
    static final int TEXTS = 10;

    static final List<byte[]> large = new ArrayList<>();
    static final List<String> texts = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < ARRAYS; i++) {
            large.add(new byte[LENGTH]);
        }
        for (int i = 0; i < STRINGS; i++) {
            texts.add(String.valueOf((char) ('a' + i % TEXTS)).repeat(80));
        }
        System.gc();
        System.out.printf("{\"arrays\": %d, \"length\": %d, \"strings\": %d, \"texts\": %d, \"letters\": 80}%n",
            ARRAYS, LENGTH, STRINGS, TEXTS);
        Thread.sleep(Long.MAX_VALUE);
    }
}
