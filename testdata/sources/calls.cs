// Timers of the program, and calls of HttpClient of which two have a connection and the others wait for one.
using System;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Threading;
using System.Threading.Tasks;

namespace Tolls;

class Gate
{
    readonly Timer _lamp;
    int _blinks;
    public Gate() => _lamp = new Timer(Blink, null, 3600000, 3600000);
    void Blink(object? state) => _blinks++;
}

class RateFeed
{
    readonly HttpClient _web = new(new SocketsHttpHandler { MaxConnectionsPerServer = 2 }) { Timeout = Timeout.InfiniteTimeSpan };
    readonly string _at;
    public RateFeed(string at) => _at = at;
    public async Task<string> Latest(int lane) => await _web.GetStringAsync(_at + lane);
}

static class Program
{
    static readonly Gate[] Gates = new Gate[12];

    static async Task Main()
    {
        for (int i = 0; i < Gates.Length; i++) Gates[i] = new Gate();
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var port = ((IPEndPoint)listener.LocalEndpoint).Port;
        var accepted = new Socket[8];
        _ = Task.Run(async () => { for (int i = 0; i < 8; i++) accepted[i] = await listener.AcceptSocketAsync(); });
        var feed = new RateFeed($"http://127.0.0.1:{port}/rate/");
        for (int lane = 0; lane < 9; lane++) _ = feed.Latest(lane);
        await Task.Delay(1500);
        Console.WriteLine("ready");
        await Task.Delay(-1);
    }
}
