//! What threads do outside of the process's own locks, by their frames.

use crate::facts::ThreadRow;
use crate::runtimes::api::{Activity, WaitFacts};
use crate::runtimes::coreclr::CoreClr;

/// Beginnings of the names of methods, with what a thread does in them.
const ACTIVITIES: [(&str, Activity); 21] = [
    ("System.Net.Sockets.Socket.Receive", Activity::SocketRead),
    ("System.Net.Sockets.NetworkStream.Read", Activity::SocketRead),
    ("System.Net.Sockets.Socket.Send", Activity::SocketWrite),
    ("System.Net.Sockets.NetworkStream.Write", Activity::SocketWrite),
    ("System.Net.Sockets.Socket.Connect", Activity::Connect),
    ("System.Net.Sockets.Socket.Accept", Activity::Accept),
    ("System.Net.Sockets.Socket.Poll", Activity::Select),
    ("System.Net.Sockets.Socket.Select", Activity::Select),
    ("System.Net.Sockets.SocketPal.Receive", Activity::SocketRead),
    ("System.Net.Sockets.SocketPal.Send", Activity::SocketWrite),
    ("System.Net.Sockets.SocketPal.Accept", Activity::Accept),
    ("System.Net.Dns.Get", Activity::Resolve),
    ("System.IO.Pipes.PipeStream.", Activity::Pipe),
    ("System.IO.Pipes.NamedPipeServerStream.WaitForConnection", Activity::Accept),
    ("System.IO.RandomAccess.", Activity::File),
    ("System.IO.FileStream.", Activity::File),
    ("System.Diagnostics.Process.WaitForExit", Activity::Process),
    ("System.Diagnostics.ProcessWaitState.WaitForExit", Activity::Process),
    ("System.ConsolePal.", Activity::File),
    ("System.Threading.Thread.Sleep", Activity::Sleep),
    ("System.Threading.Thread.UninterruptibleSleep", Activity::Sleep),
];

/// Maximum number of frames above the program's own.
const LIBRARY_FRAMES: usize = 24;

impl WaitFacts for CoreClr<'_> {
    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        let library = thread.frames.iter().take_while(|frame| !frame.own).take(LIBRARY_FRAMES);
        let names = library.filter_map(|frame| frame.method.as_deref());
        // The outermost method says best what the program asked for.
        let found =
            names.filter_map(|method: &str| ACTIVITIES.iter().find(|(start, _)| method.starts_with(start))).last();
        let runs = thread.frames.first().is_some_and(|frame| frame.runtime.is_some() && frame.own);
        found.map(|(_, activity)| *activity).or_else(|| runs.then_some(Activity::Runs))
    }
}
