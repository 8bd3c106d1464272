// Loaded from bytes by Canary.cs: its image is an array on the managed heap.
public static class Extra
{
    public static object Text() { return "@text:literal_of_loaded_bytes@" + 1; }
}
