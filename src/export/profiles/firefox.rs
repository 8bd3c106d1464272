//! The JSON of the Firefox Profiler: a track for each thread, with its stack; of memory, allocations of one track, as they have weights
//! of 64 bits.

use std::io::{self, Write};

use fxprof_processed_profile::{
    CategoryHandle, CpuDelta, Frame as TheirFrame, FrameFlags, FrameInfo, Profile as TheirProfile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};

use crate::export::profiles::{Frame, Profile};

/// A thread.
#[derive(Clone, Debug)]
pub struct Track {
    /// Its name.
    pub name: String,
    /// The system's number of it.
    pub tid: u32,
    /// The place of its stack in the profile of all.
    pub stack: usize,
}

/// The process that all is of.
#[derive(Clone, Debug)]
pub struct Process {
    /// The program.
    pub name: String,
    /// Its number.
    pub pid: Option<u32>,
    /// What wrote the file.
    pub tool: String,
}

/// When a core was: its one moment, which has no time in a dump.
fn moment() -> Timestamp {
    Timestamp::from_millis_since_reference(0.0)
}

fn begin(process: &Process) -> TheirProfile {
    let epoch = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
    let mut profile = TheirProfile::new(&process.tool, epoch, SamplingInterval::from_millis(1));
    // Names are told; there is nothing to look for at a server.
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

/// Write the stack of each thread; `threads` has the stacks. Gives how many there are.
///
/// # Errors
/// Those of writing.
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

/// Write the stacks of `memory` as retained allocations, by the first of its measures. Gives how many there are.
///
/// # Errors
/// Those of writing.
pub fn write_memory(process: &Process, memory: &Profile, out: &mut dyn Write) -> io::Result<u64> {
    let mut profile = begin(process);
    let of = profile.add_process(&process.name, process.pid.unwrap_or(0), moment());
    let thread = profile.add_thread(of, process.pid.unwrap_or(0), moment(), true);
    profile.set_thread_name(thread, &memory.title);
    for (place, held) in memory.stacks.iter().enumerate() {
        let bytes = held.weights.first().map_or(0, |&bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let stack = stack(&mut profile, thread, memory.frames_of(place));
        // Each has a place of its own, or one would be the other given back.
        profile.add_allocation_sample(thread, moment(), stack, place as u64 + 1, bytes);
    }
    // The viewer opens no thread without a sample; it is of nothing.
    profile.add_sample(thread, moment(), None, CpuDelta::ZERO, 0);
    serde_json::to_writer(out, &profile)?;
    Ok(memory.stacks.len() as u64)
}
