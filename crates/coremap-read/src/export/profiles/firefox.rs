//! JSON of the Firefox Profiler. Threads are tracks with one stack each. Memory is one track with allocations, because
//! their weights have 64 bits.

use std::io::{self, Write};

use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame as TheirFrame, FrameFlags, FrameInfo, Profile as TheirProfile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};

use crate::export::profiles::{Frame, Profile};

/// A thread's track.
#[derive(Clone, Debug)]
pub struct Track {
    /// Name of the thread.
    pub name: String,
    /// Thread id.
    pub tid: u32,
    /// Index of its stack in the profile.
    pub stack: usize,
}

/// The process of a profile.
#[derive(Clone, Debug)]
pub struct Process {
    /// Name of the program.
    pub name: String,
    /// Process id.
    pub pid: Option<u32>,
    /// Name of the tool that wrote the file.
    pub tool: String,
}

/// Time of the core's only moment. A dump has no times.
fn moment() -> Timestamp {
    Timestamp::from_millis_since_reference(0.0)
}

fn begin(process: &Process) -> TheirProfile {
    let epoch = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let mut profile = TheirProfile::new(&process.tool, epoch, SamplingInterval::from_millis(1));
    // Frames have names, so the viewer must not ask a symbol server.
    profile.set_symbolicated(true);
    profile
}

fn stack<'f>(
    profile: &mut TheirProfile,
    thread: ThreadHandle,
    frames: impl Iterator<Item = &'f Frame>,
) -> Option<StackHandle> {
    let frames = frames.map(|frame| profile.intern_string(&frame.name)).collect::<Vec<_>>().into_iter();
    let frames = frames.map(|name| FrameInfo {
        frame: TheirFrame::Label(name),
        category_pair: CategoryHandle::OTHER.into(),
        flags: FrameFlags::empty(),
    });
    profile.intern_stack_frames(thread, frames)
}

/// Writes the stack of each thread. `threads` contains the stacks. Returns their number.
///
/// # Errors
/// Errors of writing.
pub fn write_threads(process: &Process, threads: &Profile, tracks: &[Track], out: &mut dyn Write) -> io::Result<u64> {
    let mut profile = begin(process);
    let of = profile.add_process(&process.name, process.pid.unwrap_or(0), moment());
    for track in tracks {
        let thread = profile.add_thread(of, track.tid, moment(), Some(track.tid) == process.pid);
        profile.set_thread_name(thread, &track.name);
        let stack = stack(&mut profile, thread, threads.frames_of(track.stack));
        profile.add_sample(thread, moment(), stack, CpuDelta::ZERO, 1);
    }
    serde_json::to_writer(out, &profile)?;
    Ok(tracks.len() as u64)
}

/// Writes the stacks of `memory` as retained allocations, weighed by its first measure. Returns their number.
///
/// # Errors
/// Errors of writing.
pub fn write_memory(process: &Process, memory: &Profile, out: &mut dyn Write) -> io::Result<u64> {
    let mut profile = begin(process);
    let of = profile.add_process(&process.name, process.pid.unwrap_or(0), moment());
    let thread = profile.add_thread(of, process.pid.unwrap_or(0), moment(), true);
    profile.set_thread_name(thread, &memory.title);
    for (place, held) in memory.stacks.iter().enumerate() {
        let bytes = held.weights.first().map_or(0, |&bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let stack = stack(&mut profile, thread, memory.frames_of(place));
        // Each needs its own address. Otherwise one would count as freeing the other.
        profile.add_allocation_sample(thread, moment(), stack, place as u64 + 1, bytes);
    }
    // The viewer opens no thread without a sample, so add an empty one.
    profile.add_sample(thread, moment(), None, CpuDelta::ZERO, 0);
    serde_json::to_writer(out, &profile)?;
    Ok(memory.stacks.len() as u64)
}
