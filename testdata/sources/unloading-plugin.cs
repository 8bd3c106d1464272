// The plug-in of unloading.cs.
public static class Plugin
{
    static byte[] cache = new byte[64 << 10];
    public static int Tick(int x) { return x + cache.Length; }
    public static void OnChanged(object sender, System.EventArgs e) { Tick(1); }
    public static object Make() { return new Order(); }
}

public class Order { public byte[] Lines = new byte[1 << 10]; }
