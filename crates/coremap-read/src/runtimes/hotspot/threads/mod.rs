//! Java threads and the VM's own threads: lists, names, states and roles, the marks on their stacks, and the locks that
//! they hold or wait for. Frames are in `code`.

mod anchors;
mod carriers;
mod chunk;
mod claims;
mod lent;
mod list;
mod monitors;
mod records;
mod roles;
pub(in crate::runtimes::hotspot) mod thread_object;
mod virtual_threads;
mod vm_threads;
mod wait_facts;
mod waits;

pub(super) use carriers::Carried;
pub(super) use claims::claim;
pub use list::{JavaThread, java_threads};
pub use monitors::Monitors;
pub use records::Threads;
pub use thread_object::ThreadObject;
pub use vm_threads::vm_threads;
pub use waits::Locks;

use crate::facts::FrameRow;
use crate::map::Confidence;
use crate::phase::Phase;
use crate::runtimes::api::ManagedThread;
use crate::runtimes::hotspot::HotSpot;
use crate::words::FrameRowKind;

impl HotSpot<'_> {
    /// Returns all threads that the VM knows.
    pub fn all_threads(&self) -> &Threads {
        self.threads.get_or_init(|| {
            let java = self.java_threads();
            let _phase = self.vm().process.enter(Phase::ManagedThreads);
            Threads::read(self.classes(), self.all_code(), java)
        })
    }

    /// Returns the locks, with the threads that hold them and wait for them.
    pub fn locks(&self) -> &Locks {
        self.locks.get_or_init(|| {
            let (threads, spaces) = (self.all_threads(), self.spaces());
            let _phase = self.vm().process.enter(Phase::Locks);
            let mut notes = Vec::new();
            let monitors = Monitors::read(self.classes(), self.java_threads(), spaces, &mut notes);
            notes.iter().for_each(|note| self.warn_partial("locks", note));
            Locks::new(self.classes(), threads, monitors)
        })
    }

    pub(super) fn role_of(&self, thread: &ManagedThread, frames: &[FrameRow]) -> Option<(&'static str, Confidence)> {
        let record = self.all_threads().by_address.get(&thread.address)?;
        roles::role(record, frames.iter().any(|frame| frame.kind == FrameRowKind::Managed))
    }
}
