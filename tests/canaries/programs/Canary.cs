// Puts a secret in every place that a program of .NET has, then waits to be dumped. Standard input has them masked, a line each
// ("place hex"), up to a line "."; text() and the like undo the mask. Compiled by mcs, against .NET Core 3.1.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.Numerics;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Security;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

enum Code : long { None = 0, Secret = @number:enum_constant@L }

struct Card
{
    public int Kind;
    public string Owner;
    public long Number;
    public int Pin;
}

class Customer
{
    public string Name;
    public long Account;
    public int Pin;
    public double Salary;
    public decimal Balance;
    public DateTime Born;
    public Guid Id;
    public Code Code;
    public Customer Next;
    public TimeSpan Span;
    public DateTimeOffset When;
    public long? Maybe;
    public (string, long) Pair;
}

class Node
{
    public Node Next;
    public string Text;
}

static class Canary
{
    static readonly Dictionary<string, string> told = new Dictionary<string, string>();

    static byte[] text_bytes(string place)
    {
        string hex = told[place];
        var b = new byte[hex.Length / 2];
        for (int i = 0; i < b.Length; i++)
            b[i] = (byte)(Convert.ToInt32(hex.Substring(2 * i, 2), 16) ^ (0x80 | ((i * 37 + 11) & 0x7f)));
        return b;
    }

    static string text(string place)
    {
        var b = text_bytes(place);
        var s = Encoding.ASCII.GetString(b);
        Array.Clear(b, 0, b.Length);
        return s;
    }

    static string name(string place) { return text(place); }

    static long number(string place)
    {
        var b = text_bytes(place);
        long v = b.Length == 4 ? BitConverter.ToInt32(b, 0) : BitConverter.ToInt64(b, 0);
        Array.Clear(b, 0, b.Length);
        return v;
    }

    static long ticks(string place) { return number(place); }
    static double real(string place) { return number(place); }
    static int pin(string place) { return (int)number(place); }
    static Guid bytes16(string place) { return new Guid(text_bytes(place)); }
    static BigInteger positive16(string place) { return new BigInteger(text_bytes(place)); }

    static unsafe void small(string place, int* to)
    {
        *to = (int)number(place);
        Console.WriteLine("ADDR " + place + " 0x" + ((long)to).ToString("x"));
    }

    // ---- what stays

    static string literal = "@text:literal@";
    const long InCode = @number:code_constant@L;
    static string built, interned, old, loh;
    static char[] chars, lohChars = new char[60000];
    static byte[] bytes, lohBytes = new byte[100000], utf16Bytes;
    static long staticNumber;
    static int staticPin;
    static double staticReal;
    static decimal staticDecimal;
    static Guid staticGuid;
    static Card staticCard;
    static long[] longs = new long[8];
    static int[] ints = new int[8];
    static double[] doubles = new double[4];
    static long[,] grid = new long[3, 3];
    static Card[] cards = new Card[4];
    static BigInteger big, bigBytes;
    [ThreadStatic] static string threadStaticText;
    [ThreadStatic] static long threadStaticNumber;
    static Dictionary<string, string> dictionary = new Dictionary<string, string>();
    static Dictionary<long, object> byNumber = new Dictionary<long, object>();
    static ConcurrentDictionary<string, string> concurrent = new ConcurrentDictionary<string, string>();
    static Exception kept;
    static Task pending;
    static readonly TaskCompletionSource<int> never = new TaskCompletionSource<int>();
    static readonly AsyncLocal<string> asyncLocal = new AsyncLocal<string>();
    static ConditionalWeakTable<object, string> weakTable = new ConditionalWeakTable<object, string>();
    static ThreadLocal<string> threadLocal;
    static IntPtr native, nativeAnsi;
    static List<string> list;
    static Stack<string> stack;
    static Node graph;
    static Memory<char> memory;
    static List<object> others = new List<object>();
    static volatile int ready;

    static async Task<int> Wait(string secretArgument)
    {
        string local = text("async_local_variable");
        long n = number("async_local_number");
        asyncLocal.Value = text("async_local_value");
        await never.Task;
        GC.KeepAlive(local);
        return (int)n + secretArgument.Length;
    }

    static Exception Thrown(string message)
    {
        try { throw new InvalidOperationException(message); }
        catch (Exception e) { return e; }
    }

    static void Strings()
    {
        var half = text("string_built");
        built = half.Substring(0, 5) + half.Substring(5) + " (built " + ready + ")";
        interned = string.Intern(text("string_interned"));
        old = text("string_gen2");
        loh = new string('-', 50000) + text("string_loh");
        chars = text("char_array").ToCharArray();
        bytes = text_bytes("byte_array");
        utf16Bytes = Encoding.Unicode.GetBytes(text("byte_array_utf16"));
        var s = text("char_array_loh");
        s.CopyTo(0, lohChars, 30000, s.Length);
        text_bytes("byte_array_loh").CopyTo(lohBytes, 50000);
        others.Add(new StringBuilder(200).Append("x=").Append(text("stringbuilder")));
        var stream = new MemoryStream();
        var b = text_bytes("memorystream");
        stream.Write(b, 0, b.Length);
        others.Add(stream);
        var uri = new Uri("https://user:" + text("uri_password") + "@example.org/");
        GC.KeepAlive(uri.Host);
        others.Add(uri);
        var secure = new SecureString();
        foreach (var c in text("secure_string")) secure.AppendChar(c);
        others.Add(secure);
        Environment.SetEnvironmentVariable("CANARY_SET_LATER", text("environment_set"));
        GC.KeepAlive(Environment.GetEnvironmentVariable("DB_PASSWORD"));
        GC.KeepAlive(AppContext.GetData("Canary.Setting"));
        using (Assembly.GetExecutingAssembly().GetManifestResourceStream("resource.txt")) { }
    }

    static void Numbers()
    {
        others.Add(number("boxed_number"));
        others.Add(pin("boxed_pin"));
        others.Add((decimal)number("boxed_decimal"));
        others.Add(real("boxed_real"));
        others.Add(new DateTime(ticks("boxed_datetime")));
        others.Add(bytes16("boxed_guid"));
        others.Add((Code)number("boxed_enum"));
        others.Add(new Card { Number = number("boxed_struct_number"), Owner = text("boxed_struct_text"), Pin = pin("boxed_struct_pin") });
        staticNumber = number("static_number");
        staticPin = pin("static_pin");
        staticReal = real("static_real");
        staticDecimal = number("static_decimal");
        staticGuid = bytes16("static_guid");
        staticCard = new Card { Number = number("static_struct_number") };
        longs[3] = number("long_array");
        ints[5] = pin("int_array_pin");
        doubles[2] = real("double_array");
        grid[1, 1] = number("long_grid");
        cards[2] = new Card { Number = number("struct_array_number"), Owner = text("struct_array_text"), Pin = pin("struct_array_pin") };
        big = new BigInteger(number("biginteger"));
        bigBytes = positive16("biginteger_bytes");
    }

    static void Objects()
    {
        dictionary[text("dictionary_key")] = text("dictionary_value");
        byNumber[number("dictionary_key_number")] = new object();
        concurrent[text("concurrent_key")] = text("concurrent_value");
        others.Add(new Customer
        {
            Name = text("field_text"),
            Account = number("field_number"),
            Pin = pin("field_pin"),
            Salary = real("field_real"),
            Balance = number("field_decimal"),
            Born = new DateTime(ticks("field_datetime"), DateTimeKind.Unspecified),
            Id = bytes16("field_guid"),
            Code = (Code)number("field_enum"),
            Span = new TimeSpan(number("field_timespan")),
            When = new DateTimeOffset(ticks("field_datetimeoffset"), TimeSpan.Zero),
            Maybe = number("field_nullable"),
            Pair = (text("field_tuple_text"), number("field_tuple_number")),
        });
        kept = Thrown(text("exception_message"));
        kept.Data["k"] = text("exception_data");
        others.Add(new AggregateException(text("exception_outer"), new ArgumentException(text("exception_inner"))));
        others.Add(Task.FromResult(text("task_result")));
        others.Add(Task.FromResult(number("task_result_number")));
        pending = Wait(text("async_argument"));
        list = new List<string> { text("list_item") };
        others.Add(new HashSet<string> { text("hashset_item") });
        stack = new Stack<string>();
        stack.Push(text("stack_item"));
        stack.Push(text("stack_popped"));
        var queue = new Queue<long>();
        queue.Enqueue(number("queue_number"));
        others.Add(queue);
        var captured = text("closure_captured");
        others.Add((Func<string>)(() => captured));
        others.Add(new Timer(_ => { }, text("timer_state"), 3600000, 3600000));
        others.Add(GCHandle.Alloc(text_bytes("pinned_array"), GCHandleType.Pinned));
        var lazy = new Lazy<string>(() => text("lazy"));
        GC.KeepAlive(lazy.Value);
        others.Add(lazy);
        weakTable.Add(others, text("weak_table_value"));
        others.Add(Tuple.Create(text("tuple_text"), number("tuple_number")));
        threadLocal = new ThreadLocal<string>(() => text("threadlocal"));
        GC.KeepAlive(threadLocal.Value);
    }

    static unsafe void NativeMemoryAndFiles()
    {
        // Without what was in it before.
        native = Marshal.AllocHGlobal(256);
        new Span<byte>((void*)native, 256).Clear();
        text("native_span").AsSpan().CopyTo(new Span<char>((void*)native, 64));
        Marshal.WriteInt64(native, 200, number("native_number"));
        nativeAnsi = Marshal.StringToHGlobalAnsi(text("native_ansi"));
        var file = new FileStream("written", FileMode.Create, FileAccess.ReadWrite, FileShare.None, 4096, FileOptions.DeleteOnClose);
        var b = text_bytes("filestream_buffer");
        file.Write(b, 0, b.Length);
        others.Add(file);
        var writer = new StreamWriter(new MemoryStream(), new UTF8Encoding(false), 1024);
        writer.Write(text("streamwriter_buffer"));
        others.Add(writer);
        var assembly = Assembly.Load(File.ReadAllBytes("Extra.dll"));
        others.Add(assembly.GetType("Extra").GetMethod("Text").Invoke(null, null));
        for (int i = 0; i < 20; i++)
        {
            var freed = Marshal.AllocHGlobal(3000);
            var c = text("native_freed").ToCharArray();
            Marshal.Copy(c, 0, freed + 1000, c.Length);
            if (i % 2 == 1) Marshal.FreeHGlobal(freed);
        }
    }

    // ---- frames

    [MethodImpl(MethodImplOptions.NoInlining)]
    static long Compiled(long x) { return x ^ InCode; }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static unsafe void Dead()
    {
        var s = text("dead_string");
        object boxed = number("dead_boxed");
        var node = new Node { Text = text("dead_object_text"), Next = new Node() };
        long* p = stackalloc long[512];
        p[100] = number("dead_stackalloc");
        GC.KeepAlive(s);
        GC.KeepAlive(boxed);
        GC.KeepAlive(node);
        GC.KeepAlive(p[100]);
    }

    static unsafe void FrameThatStays()
    {
        char* c = stackalloc char[64];
        var b = text_bytes("stackalloc_text");
        for (int i = 0; i < b.Length; i++) c[i] = (char)b[i];
        Array.Clear(b, 0, b.Length);
        long* l = stackalloc long[4];
        int* n = stackalloc int[4];
        l[0] = number("stackalloc_number");
        n[1] = pin("stackalloc_pin");
        small("stackalloc_small", n + 2);
        long local = number("local_number");
        decimal amount = number("local_decimal");
        string s = text("local_string");
        var card = new Card { Number = number("local_struct_number"), Owner = text("local_struct_text") };
        Guid guid = bytes16("local_guid");
        Interlocked.Increment(ref ready);
        Thread.Sleep(Timeout.Infinite);
        GC.KeepAlive(s);
        GC.KeepAlive(card);
        GC.KeepAlive(l[0] + local + n[1] + n[2] + c[0]);
        GC.KeepAlive(amount);
        GC.KeepAlive(guid);
    }

    // The number is in a callee-saved register while the thread sleeps. A collection unwinds from the runtime's frame and
    // notes where the register was saved. A method with a loop is optimized at once; others have variables on the stack.
    [MethodImpl(MethodImplOptions.NoInlining)]
    static void RegisterThatStays()
    {
        long local = number("saved_register");
        for (int i = 0; i < 3; i++) Thread.Yield();
        Interlocked.Increment(ref ready);
        Thread.Sleep(Timeout.Infinite);
        Console.WriteLine(local);
    }

    static void HandlerThatStays()
    {
        threadStaticText = text("thread_static_text");
        threadStaticNumber = number("thread_static_number");
        try { throw new InvalidOperationException(text("caught_exception")); }
        catch (Exception e)
        {
            Interlocked.Increment(ref ready);
            Thread.Sleep(Timeout.Infinite);
            GC.KeepAlive(e);
        }
    }

    static void Start(string name, ThreadStart body) { new Thread(body) { IsBackground = true, Name = name }.Start(); }

    static void Main()
    {
        for (string line; (line = Console.ReadLine()) != ".";)
        {
            var parts = line.Split(' ');
            told[parts[0]] = parts[1];
        }
        Strings();
        Numbers();
        Objects();
        NativeMemoryAndFiles();
        GC.KeepAlive(Compiled(5));
        Start("register", RegisterThatStays);
        while (ready < 1) Thread.Sleep(20);
        Thread.Sleep(200);
        GC.Collect();
        GC.WaitForPendingFinalizers();
        GC.Collect();
        // From here on there is no collection: what is freed now is still there.
        Dead();
        stack.Pop();
        Start("frame", FrameThatStays);
        Start("handler", HandlerThatStays);
        Start(name("thread_name"), () => { Interlocked.Increment(ref ready); Thread.Sleep(Timeout.Infinite); });
        while (ready < 4) Thread.Sleep(20);
        list.Add(text("gen0_string"));
        graph = new Node { Text = text("gen0_object_text"), Next = new Node { Text = literal } };
        others.Add(new WeakReference(text("weak_target")));
        memory = text("memory_of_chars").ToCharArray();
        Console.WriteLine("READY");
        Thread.Sleep(Timeout.Infinite);
    }
}
