// What VisualVM's library finds in a heap dump, as JSON: java -cp LIBRARY HeapDump.java FILE
// Where two dumps of one heap differ, object by object: java -cp LIBRARY HeapDump.java FILE FILE
import java.io.File;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.graalvm.visualvm.lib.jfluid.heap.*;

public class HeapDump {
    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\' || c < ' ' || c > '~') out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    static Heap open(String file) throws Exception {
        return HeapFactory.createHeap(new File(file));
    }

    static String value(FieldValue of) {
        if (of instanceof ObjectFieldValue) {
            Instance held = ((ObjectFieldValue) of).getInstance();
            return held == null ? "null" : Long.toHexString(held.getInstanceId());
        }
        return of.getValue();
    }

    static String values(List<FieldValue> all) {
        List<String> out = new ArrayList<>();
        for (FieldValue of : all) {
            String name = of.getField().getName();
            // The library makes this one up.
            if (name.equals("<classLoader>")) continue;
            out.add(name + "=" + value(of));
        }
        // Each writer has an order of its own.
        out.sort(null);
        return out.toString();
    }

    static String values(Instance of) {
        if (of instanceof PrimitiveArrayInstance) return ((PrimitiveArrayInstance) of).getValues().toString();
        if (!(of instanceof ObjectArrayInstance)) return values(of.getFieldValues());
        StringBuilder out = new StringBuilder();
        for (Instance held : ((ObjectArrayInstance) of).getValues()) {
            out.append(held == null ? "null" : Long.toHexString(held.getInstanceId())).append(' ');
        }
        return out.toString();
    }

    // How many objects the roots lead to, but for those that stand for classes; and how many of them are texts.
    static long[] reached(Heap heap) {
        long texts = 0;
        Set<Long> seen = new HashSet<>(), classes = new HashSet<>();
        ArrayDeque<Instance> next = new ArrayDeque<>();
        ArrayDeque<JavaClass> loaded = new ArrayDeque<>();
        Consumer<Instance> reach = of -> {
            if (of == null) return;
            JavaClass stands = heap.getJavaClassByID(of.getInstanceId());
            if (stands != null) {
                if (classes.add(stands.getJavaClassId())) loaded.add(stands);
            } else if (seen.add(of.getInstanceId())) next.add(of);
        };
        Consumer<List<FieldValue>> all = fields -> fields.forEach(of -> {
            if (of instanceof ObjectFieldValue) reach.accept(((ObjectFieldValue) of).getInstance());
        });
        for (GCRoot root : heap.getGCRoots()) reach.accept(root.getInstance());
        while (!next.isEmpty() || !loaded.isEmpty()) {
            if (!loaded.isEmpty()) {
                JavaClass of = loaded.poll();
                all.accept(of.getStaticFieldValues());
                reach.accept(of.getClassLoader());
                JavaClass above = of.getSuperClass();
                if (above != null && classes.add(above.getJavaClassId())) loaded.add(above);
                continue;
            }
            Instance of = next.poll();
            JavaClass its = of.getJavaClass();
            if (its != null && its.getName().equals("java.lang.String")) texts++;
            if (its != null && classes.add(its.getJavaClassId())) loaded.add(its);
            if (of instanceof ObjectArrayInstance) ((ObjectArrayInstance) of).getValues().forEach(reach);
            else if (!(of instanceof PrimitiveArrayInstance)) all.accept(of.getFieldValues());
        }
        return new long[] {seen.size(), texts};
    }

    static void tell(Heap heap) {
        List<String> classes = new ArrayList<>();
        for (JavaClass of : heap.getAllClasses()) {
            classes.add(String.format("[%s,%d,%d]", quoted(of.getName()), of.getInstancesCount(), of.getAllInstancesSize()));
        }
        Map<String, Integer> roots = new TreeMap<>();
        List<String> threads = new ArrayList<>();
        for (GCRoot root : heap.getGCRoots()) {
            roots.merge(root.getKind(), 1, Integer::sum);
            if (!(root instanceof ThreadObjectGCRoot)) continue;
            List<String> frames = new ArrayList<>();
            StackTraceElement[] trace = ((ThreadObjectGCRoot) root).getStackTrace();
            for (StackTraceElement frame : trace == null ? new StackTraceElement[0] : trace) frames.add(quoted(frame.toString()));
            threads.add(frames.toString());
        }
        List<String> kinds = new ArrayList<>();
        roots.forEach((kind, count) -> kinds.add(quoted(kind) + ":" + count));
        long objects = 0, bytes = 0, strings = 0, text = 0;
        for (Iterator<Instance> all = heap.getAllInstancesIterator(); all.hasNext(); ) {
            Instance of = all.next();
            objects++;
            bytes += of.getSize();
            if (!of.getJavaClass().getName().equals("java.lang.String")) continue;
            if (of.getValueOfField("value") instanceof PrimitiveArrayInstance) {
                strings++;
                text += ((PrimitiveArrayInstance) of.getValueOfField("value")).getLength();
            }
        }
        // What the library says a class keeps fails where roots or classes that it needs are missing.
        long kept = 0;
        for (Instance of : heap.getBiggestObjectsByRetainedSize(1)) kept = of.getRetainedSize();
        System.out.printf("{\"object\":%d,\"reached\":%s,\"classes\":%s,\"roots\":{%s},\"threads\":%s,\"objects\":%d,\"bytes\":%d,\"strings\":%d,\"text\":%d,\"kept\":%d}%n",
            heap.getJavaClassByName("java.lang.Object").getInstanceSize(), Arrays.toString(reached(heap)), classes, String.join(",", kinds), threads, objects, bytes, strings, text, kept);
    }

    static long differences;

    static void differ(String what) {
        if (++differences <= Integer.getInteger("most", 40)) System.out.println(what.length() > 600 ? what.substring(0, 600) : what);
    }

    static void same(String what, Object one, Object other) {
        if (!String.valueOf(one).equals(String.valueOf(other))) differ(what + ": " + one + " | " + other);
    }

    static String name(JavaClass of) {
        return of == null ? "null" : of.getName();
    }

    static Map<String, String> threadsOf(Heap heap) {
        Map<String, String> threads = new TreeMap<>();
        for (GCRoot root : heap.getGCRoots()) {
            if (!(root instanceof ThreadObjectGCRoot) || root.getInstance() == null) continue;
            StackTraceElement[] trace = ((ThreadObjectGCRoot) root).getStackTrace();
            threads.put(Long.toHexString(root.getInstance().getInstanceId()), trace == null ? "" : Arrays.toString(trace));
        }
        return threads;
    }

    static void compare(Heap one, Heap other) {
        Set<Long> classes = new HashSet<>();
        long objects = 0;
        for (JavaClass of : one.getAllClasses()) {
            classes.add(of.getJavaClassId());
            JavaClass there = other.getJavaClassByID(of.getJavaClassId());
            if (there == null) {
                differ("class only in the first: " + of.getName() + " " + of.getInstancesCount());
                continue;
            }
            String at = of.getName();
            same("name", at, there.getName());
            same(at + " count", of.getInstancesCount(), there.getInstancesCount());
            same(at + " size", of.getAllInstancesSize(), there.getAllInstancesSize());
            same(at + " instance", of.getInstanceSize(), there.getInstanceSize());
            same(at + " super", name(of.getSuperClass()), name(there.getSuperClass()));
            same(at + " statics", values(of.getStaticFieldValues()), values(there.getStaticFieldValues()));
            Instance loader = of.getClassLoader(), theirs = there.getClassLoader();
            same(at + " loader", loader == null ? 0 : loader.getInstanceId(), theirs == null ? 0 : theirs.getInstanceId());
        }
        for (JavaClass of : other.getAllClasses()) {
            if (!classes.contains(of.getJavaClassId())) differ("class only in the second: " + of.getName() + " " + of.getInstancesCount());
        }
        Set<Long> seen = new HashSet<>();
        for (Iterator<Instance> all = one.getAllInstancesIterator(); all.hasNext(); objects++) {
            Instance of = all.next();
            seen.add(of.getInstanceId());
            Instance there = other.getInstanceByID(of.getInstanceId());
            String at = name(of.getJavaClass()) + " " + Long.toHexString(of.getInstanceId());
            if (there == null) {
                differ("object only in the first: " + at);
                continue;
            }
            same(at + " class", name(of.getJavaClass()), name(there.getJavaClass()));
            same(at, values(of), values(there));
        }
        for (Iterator<Instance> all = other.getAllInstancesIterator(); all.hasNext(); ) {
            Instance of = all.next();
            if (!seen.contains(of.getInstanceId())) differ("object only in the second: " + name(of.getJavaClass()) + " " + Long.toHexString(of.getInstanceId()));
        }
        Map<String, String> threads = threadsOf(other);
        threadsOf(one).forEach((at, trace) -> same("thread " + at, trace, threads.get(at)));
        System.out.println(objects + " objects and " + classes.size() + " classes compared, " + differences + " differences");
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 1) tell(open(args[0]));
        else compare(open(args[0]), open(args[1]));
        System.exit(differences > 0 ? 1 : 0);
    }
}
