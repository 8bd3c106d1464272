import java.io.*;
import java.math.*;
import java.net.URI;
import java.nio.*;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;

/**
 * Puts a secret in every place that a program of Java has, then waits to be dumped. Standard input has them masked, a line each
 * ("place hex"), up to a line "."; text() and the like undo the mask.
 */
public class Canary {
    static Map<String, String> told = new HashMap<>();

    static byte[] text_bytes(String place) {
        String hex = told.get(place);
        byte[] b = new byte[hex.length() / 2];
        for (int i = 0; i < b.length; i++) {
            b[i] = (byte) (Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16) ^ (0x80 | (i * 37 + 11) & 0x7f));
        }
        return b;
    }

    static String text(String place) {
        byte[] b = text_bytes(place);
        String text = new String(b, StandardCharsets.UTF_8);
        Arrays.fill(b, (byte) 0);
        return text;
    }

    static String text16(String place) { return text(place); }

    static byte[] text16_bytes(String place) { return text_bytes(place); }

    static String accented(String place) { return text(place); }

    static String six(String place) { return text(place); }

    static String name(String place) { return text(place); }

    static ByteBuffer little(String place) { return ByteBuffer.wrap(text_bytes(place)).order(ByteOrder.LITTLE_ENDIAN); }

    static long number(String place) { return little(place).getLong(); }

    static long millis(String place) { return number(place); }

    static double real(String place) { return (double) number(place); }

    static int pin(String place) { return little(place).getInt(); }

    static class Customer {
        final String fixed;
        String name;
        long account;
        int pin;
        double salary;
        Customer next;

        Customer(String fixed) { this.fixed = fixed; }
    }

    record Rec(String who, long number, int pin) { }

    enum Color {
        RED, GREEN;
        String tag;
    }

    static final long CONSTANT = @number:code_constant@L;
    static String literal = "@text:literal@";
    static String latin, accented, utf16, built, interned, old;
    static long number;
    static int pin;
    static double real;
    static char[] chars, bigChars = new char[1 << 20];
    static byte[] bytes, bigBytes = new byte[1 << 20];
    static long[] longs = new long[8];
    static int[] ints = new int[8];
    static double[] doubles = new double[4];
    static long[][] grid = new long[2][4];
    static Object boxedLong, boxedInt, boxedDouble;
    static ByteBuffer direct, heapBuffer;
    static MappedByteBuffer mapped;
    static Throwable keptException;
    static ThreadLocal<String> threadLocal = new ThreadLocal<>();
    static Map<String, String> map = new HashMap<>(), concurrent = new ConcurrentHashMap<>(), tree = new TreeMap<>();
    static Map<Long, String> byNumber = new HashMap<>();
    static List<String> list = new ArrayList<>();
    static Deque<String> deque = new ArrayDeque<>();
    static Properties properties = new Properties();
    static List<Object> others = new ArrayList<>();
    static volatile int ready;

    static synchronized void isReady() { ready++; }

    static void sleep() {
        try {
            Thread.sleep(1000000000L);
        } catch (InterruptedException e) {
        }
    }

    static void strings() {
        latin = text("string_latin");
        accented = accented("string_accented");
        utf16 = text("string_utf16") + "\u0416";
        built = new StringBuilder().append(text("string_built")).append(' ').append(ready).toString();
        interned = text("string_interned").intern();
        others.add(new StringBuilder(100).append("q=").append(text("stringbuilder")));
        others.add(Optional.of(text("optional")));
        others.add(Pattern.compile(text("regex_pattern") + "[0-9]+"));
        others.add(URI.create("https://u:" + text("uri_password") + "@example.org/"));
        String captured = text("lambda_captured");
        Callable<String> closure = () -> captured;
        others.add(closure);
        others.add(CompletableFuture.completedFuture(text("future_result")));
        others.add(new java.lang.ref.WeakReference<>(text("weak_reference")));
        others.add(new java.lang.ref.SoftReference<>(text("soft_reference")));
        properties.setProperty("p", text("property_value"));
        System.setProperty("canary.set.later", text("system_property_set"));
        Color.RED.tag = text("enum_field");
        // The hash is made of the text: it goes as well.
        String hashed = six("string_hashed_six");
        map.put(hashed, "z");
    }

    static void numbers() {
        number = number("static_number");
        pin = pin("static_pin");
        real = real("static_real");
        longs[3] = number("long_array");
        ints[5] = pin("int_array_pin");
        doubles[2] = real("double_array");
        grid[1][2] = number("long_grid");
        boxedLong = Long.valueOf(number("boxed_long"));
        boxedInt = Integer.valueOf(pin("boxed_pin"));
        boxedDouble = Double.valueOf(real("boxed_double"));
        byNumber.put(number("map_key_number"), "x");
        others.add(BigInteger.valueOf(number("biginteger")));
        others.add(BigDecimal.valueOf(number("bigdecimal"), 2));
        others.add(new UUID(number("uuid_upper"), number("uuid_lower")));
        others.add(new Date(millis("date")));
    }

    static void arraysAndBuffers() throws IOException {
        chars = text("char_array").toCharArray();
        bytes = text_bytes("byte_array");
        text16("char_array_big").getChars(0, 16, bigChars, 500000);
        System.arraycopy(text16_bytes("byte_array_big"), 0, bigBytes, 400000, 16);
        direct = ByteBuffer.allocateDirect(4096).order(ByteOrder.LITTLE_ENDIAN);
        direct.position(100);
        direct.put(text_bytes("direct_buffer")).putLong(2000, number("direct_buffer_number"));
        heapBuffer = ByteBuffer.allocate(256).put(text_bytes("heap_buffer"));
        Path file = Path.of("mapped");
        Set<OpenOption> how = Set.of(StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        try (FileChannel channel = FileChannel.open(file, how)) {
            mapped = channel.map(FileChannel.MapMode.READ_WRITE, 0, 8192);
        }
        mapped.position(300);
        mapped.put(text_bytes("mapped_buffer"));
        Files.delete(file);
        ByteArrayOutputStream stream = new ByteArrayOutputStream();
        stream.write(text_bytes("byte_stream"));
        others.add(stream);
        PrintWriter writer = new PrintWriter(new OutputStreamWriter(new ByteArrayOutputStream()));
        writer.print(text("print_writer_buffer"));
        others.add(writer);
    }

    static void objects() {
        Customer customer = new Customer(text("field_final"));
        customer.name = text("field_string");
        customer.account = number("field_number");
        customer.pin = pin("field_pin");
        customer.salary = real("field_real");
        customer.next = new Customer(text("field_of_next"));
        others.add(customer);
        others.add(new Customer[] {null, new Customer(text("array_of_objects"))});
        others.add(new Rec(text("record_string"), number("record_number"), pin("record_pin")));
        map.put(text("map_key"), text("map_value"));
        concurrent.put(text("concurrent_key"), text("concurrent_value"));
        tree.put(text("tree_key"), text("tree_value"));
        list.add(text("list_item"));
        list.add(text("list_removed"));
        deque.add(text("deque_polled"));
        try {
            throw new RuntimeException(text("exception_message"), new IOException(text("exception_cause")));
        } catch (Exception e) {
            keptException = e;
        }
        threadLocal.set(text("thread_local_of_main"));
        System.getenv("DB_PASSWORD");
        System.getProperty("canary.option");
    }

    static void dead() {
        String x = text("dead_string");
        long[] a = {number("dead_long_array")};
        Object o = Long.valueOf(number("dead_boxed"));
        if (x.length() + a.length + o.hashCode() == 1) System.out.println(x);
    }

    static void frameThatStays() {
        String a = text("local_string");
        long b = number("local_number");
        int c = pin("local_pin");
        double d = real("local_real");
        isReady();
        sleep();
        if (a.length() + b + c + d == 5) System.out.println(a);
    }

    static void handlerThatStays() {
        threadLocal.set(text("thread_local"));
        try {
            throw new IllegalStateException(text("caught_exception"));
        } catch (Exception e) {
            isReady();
            sleep();
            System.out.println(e);
        }
    }

    static void start(String name, Runnable body) {
        Thread thread = new Thread(body, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Called often enough that it is compiled. */
    static int compiled(int n) {
        long x = 0;
        for (int k = 0; k < n; k++) x ^= CONSTANT + k;
        return (int) x;
    }

    static void readInput() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; !(line = in.readLine()).equals("."); ) {
            String[] parts = line.split(" ");
            told.put(parts[0], parts[1]);
        }
    }

    public static void main(String[] args) throws Exception {
        readInput();
        strings();
        numbers();
        arraysAndBuffers();
        objects();
        int h = 0;
        for (int k = 0; k < 20000; k++) h += compiled(50);
        System.gc();
        System.gc();
        // From here on there is no collection: what is freed now is still there.
        list.remove(1);
        deque.poll();
        dead();
        old = text("string_young");
        start("frame", Canary::frameThatStays);
        start("handler", Canary::handlerThatStays);
        start(name("thread_name"), () -> {
            isReady();
            LockSupport.park();
        });
        while (ready < 3) Thread.sleep(20);
        System.out.println("READY " + ProcessHandle.current().pid() + " " + h);
        sleep();
    }
}
