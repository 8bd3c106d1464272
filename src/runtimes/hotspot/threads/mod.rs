//! Java's threads and those of the VM itself: the VM's lists of them, their names, states and roles, the marks that the
//! VM leaves on their stacks, the locks that they hold and wait for. Frames are in `code`.

mod anchors;
mod chunk;
mod claims;
mod known;
mod list;
mod monitors;
mod roles;
mod thread_object;
mod virtual_threads;
mod vm_threads;
mod waits;

pub(super) use claims::claim;
pub use known::Threads;
pub use list::{JavaThread, java_threads};
pub use monitors::Monitors;
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
    /// All threads that the VM knows.
    pub fn all_threads(&self) -> &Threads {
        self.threads.get_or_init(|| {
            let java = self.java_threads();
            let _phase = self.vm().process.enter(Phase::ManagedThreads);
            Threads::read(self.classes(), self.all_code(), java)
        })
    }

    /// Locks, who holds them and who waits for them.
    pub fn locks(&self) -> &Locks {
        self.locks.get_or_init(|| {
            let (threads, spaces) = (self.all_threads(), self.spaces());
            let _phase = self.vm().process.enter(Phase::Locks);
            let mut notes = Vec::new();
            let monitors = Monitors::read(self.classes(), self.java_threads(), spaces, &mut notes);
            notes.iter().for_each(|note| self.tell("locks", note));
            Locks::new(self.classes(), threads, monitors)
        })
    }

    /// What a thread is for.
    pub(super) fn role_of(&self, thread: &ManagedThread, frames: &[FrameRow]) -> Option<(&'static str, Confidence)> {
        let known = self.all_threads().by_address.get(&thread.address)?;
        roles::role(known, frames.iter().any(|frame| frame.kind == FrameRowKind::Managed))
    }
}
