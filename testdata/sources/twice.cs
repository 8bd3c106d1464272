// Program of the core dotnet31-twice: exceptions of classes that have a field _message of their own, as System.Exception
// has one; and System.Linq.dll twice, by path (mapped by section) and from bytes (flat). A thread waits in each copy.
//
//   mcs -out:twice.dll twice.cs     (with a twice.runtimeconfig.json of .NET 3.1)
//   DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 dotnet twice.dll &
//   createdump -h -f core PID
//   coremap shrink core -o OUT --for exceptions,threads,regions,ip2method
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Threading;

class Own : Exception
{
    private readonly string _message;

    public Own(string text) : base("base of " + text) { _message = "own of " + text; }

    public override string Message { get { return _message; } }
}

class Empty : Exception
{
    private readonly string _message = null;

    public Empty(string text) : base("base of " + text) { }
}

class Hidden : Own
{
    private readonly object _message = new object();

    public Hidden(string text) : base(text) { }
}

class Twice
{
    static readonly List<Exception> kept = new List<Exception>();
    static int waiting;

    static void Keep(Exception thrown)
    {
        try { throw thrown; }
        catch (Exception caught) { kept.Add(caught); }
    }

    static bool Wait(object item)
    {
        Interlocked.Increment(ref waiting);
        Thread.Sleep(Timeout.Infinite);
        return true;
    }

    static void Start(string name, Action action)
    {
        new Thread(() => action()) { IsBackground = true, Name = name }.Start();
    }

    static void Main()
    {
        Keep(new Own("first"));
        Keep(new Empty("second"));
        Keep(new Hidden("third"));
        Keep(new InvalidOperationException("fourth"));
        var folder = Path.GetDirectoryName(typeof(object).Assembly.Location);
        var loaded = Assembly.Load(File.ReadAllBytes(Path.Combine(folder, "System.Linq.dll")));
        var items = new object[] { "a", "b" };
        Func<object, bool> wait = Wait;
        Start("by-path", () => items.Where(wait).ToArray());
        var first = loaded.GetType("System.Linq.Enumerable").GetMethods()
            .First(m => m.Name == "First" && m.GetParameters().Length == 2).MakeGenericMethod(typeof(object));
        Start("from-bytes", () => first.Invoke(null, new object[] { items, wait }));
        while (waiting < 2) Thread.Sleep(10);
        Console.WriteLine("ready");
        Thread.Sleep(Timeout.Infinite);
    }
}
