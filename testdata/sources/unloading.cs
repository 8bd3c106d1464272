// Load contexts that were unloaded, and what keeps each of them: nothing, a static variable, a thread-local variable, a
// variable of a method, an event. Usage: unloading PLUGIN.dll
using System;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;
using System.Threading;

namespace Kiosk;

sealed class PluginContext : AssemblyLoadContext
{
    public PluginContext(string name) : base(name, true) { }
}

static class Host
{
    static readonly string[] Ways = { "nothing", "static", "thread", "local", "event" };
    static readonly ManualResetEventSlim Never = new(false);
    static readonly CountdownEvent Ready = new(Ways.Length);
    static object lastOrder;
    [ThreadStatic] static object current;
    public static event EventHandler Changed;

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Load(string plugin, string way)
    {
        var context = new PluginContext("plugin-" + way);
        var type = context.LoadFromAssemblyPath(plugin).GetType("Plugin");
        type.GetMethod("Tick").Invoke(null, new object[] { 1 });
        var make = type.GetMethod("Make");
        if (way == "static") lastOrder = make.Invoke(null, null);
        if (way == "thread") current = make.Invoke(null, null);
        if (way == "event") Changed += type.GetMethod("OnChanged").CreateDelegate<EventHandler>();
        if (way == "local") { Hold(make.Invoke(null, null), context); return; }
        context.Unload();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Hold(object order, AssemblyLoadContext context)
    {
        context.Unload();
        context = null;
        Ready.Signal();
        Never.Wait();
        GC.KeepAlive(order);
    }

    static void Main(string[] args)
    {
        foreach (var way in Ways)
        {
            void Run()
            {
                Load(args[0], way);
                if (way == "local") return;
                Ready.Signal();
                Never.Wait();
            }
            new Thread(Run) { Name = "host-" + way, IsBackground = true }.Start();
        }
        Ready.Wait();
        for (int i = 0; i < 5; i++) { GC.Collect(); GC.WaitForPendingFinalizers(); }
        Console.WriteLine($"READY {{\"pid\": {Environment.ProcessId}}}");
        Thread.Sleep(-1);
    }
}
