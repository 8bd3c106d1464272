//! Virtual threads, which are not threads of the system, merged by stack and state.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::commands::threads::report::{VirtualGroupRow, VirtualThreadRow, VirtualThreads};
use crate::diag::WarningCode;
use crate::limits;
use crate::process::Process;
use crate::report::FrameNames;
use crate::runtimes::api::{Activation, LightThread, RuntimeId};
use crate::session::Session;

use super::rows::Rows;

/// Maximum number of threads listed per group.
const MAX_LISTED: usize = 64;

/// Groups are distinguished by state, by why their frames end, by who started them, and by the names of the frames.
type Key = (Option<&'static str>, Option<&'static str>, Option<(String, Option<String>)>, Vec<u32>);

/// Collects the virtual threads of all runtimes.
pub(super) fn virtual_threads(session: &Session<'_>, rows: &mut Rows<'_, '_, '_>) -> VirtualThreads {
    let mut merger = GroupBuilder { left: limits::MAX_ALL_FRAMES, ..GroupBuilder::default() };
    for (id, runtime) in session.runtimes_by_id() {
        runtime.each_light_thread(&mut |thread| {
            merger.out.word = runtime.light_thread_word();
            merger.add(id, &thread, rows);
        });
    }
    merger.finish(session.process)
}

/// Name and position of the method that started a thread.
fn created(by: &Activation) -> (String, Option<String>) {
    let source = &by.position.source;
    let at = source.file.as_ref().zip(source.line).map(|(file, line)| format!("{}:{line}", printable(file)));
    (printable(&by.method.name).into_owned(), at)
}

#[derive(Default)]
struct GroupBuilder {
    names: FrameNames,
    index: HashMap<Key, usize>,
    objects: Vec<HashSet<Addr>>,
    out: VirtualThreads,
    /// Number of frames that may still be stored.
    left: usize,
    /// Number of threads whose group could not be stored.
    lost: u64,
}

impl GroupBuilder {
    fn add(&mut self, runtime: RuntimeId, thread: &LightThread, rows: &mut Rows<'_, '_, '_>) {
        self.out.total += 1;
        self.out.mounted += u64::from(thread.carrier.is_some());
        let frames: Vec<_> = thread.frames.iter().map(|frame| rows.virtual_frame(runtime, frame)).collect();
        let names = frames.iter().map(|frame| self.names.number(frame)).collect();
        let next = self.out.groups.len();
        let created = thread.created_by.as_ref().map(created);
        let key = (thread.state, thread.missing, created.clone(), names);
        if !self.index.contains_key(&key) {
            // A group without frames takes memory too.
            let Some(left) = self.left.checked_sub(frames.len() + 1) else {
                self.lost += 1;
                return;
            };
            self.left = left;
            let (state, waits_for, end) = (thread.state, thread.wait.clone(), thread.missing);
            let (created_by, created_at) = created.map_or((None, None), |(method, at)| (Some(method), at));
            let row = VirtualGroupRow { state, waits_for, frames, end, created_by, created_at, ..Default::default() };
            self.out.groups.push(row);
            self.objects.push(HashSet::new());
        }
        let at = *self.index.entry(key).or_insert(next);
        let (Some(group), Some(objects)) = (self.out.groups.get_mut(at), self.objects.get_mut(at)) else { return };
        group.count += 1;
        objects.extend(thread.wait.as_ref().map(|wait| wait.object));
        group.objects = objects.len() as u64;
        if group.threads.len() < MAX_LISTED {
            let (object, id, name) = (thread.address, thread.id, thread.name.clone());
            group.threads.push(VirtualThreadRow { object, id, name, carrier_tid: thread.carrier });
        }
    }

    fn finish(mut self, process: &Process) -> VirtualThreads {
        if self.lost > 0 {
            process.diag.partial(
                WarningCode::Limit,
                format!("the stacks of {} more virtual threads are not listed", self.lost),
            );
        }
        // A stable sort: groups of one size stay in the order in which they were found.
        self.out.groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        self.out
    }
}
