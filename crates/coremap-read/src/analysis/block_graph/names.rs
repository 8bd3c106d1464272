//! Names of holders of blocks: variables, thread-local variables and locals of functions.

use crate::addr::Addr;
use crate::analysis::block_graph::facts::{SameKey, Scene};
use crate::analysis::block_graph::roots::{RootGroup, RootPlace};
use crate::analysis::place::place;
use crate::bytes::printable;
use crate::native::thread_local;

impl Scene<'_, '_> {
    /// The key that one variable has in all threads: its distance from the thread pointer, or its function and frame.
    pub(super) fn same_key(&self, group: &RootGroup) -> Option<SameKey> {
        match group.place {
            RootPlace::Tls(tid) => {
                let pointer = self.session.thread(tid)?.thread_pointer?;
                let below = pointer.checked_since(group.at)?;
                Some((true, format!("{below:#x} bytes below its thread pointer")))
            }
            RootPlace::Stack(tid) => {
                let (function, above) = self.stacks.function_at(tid, group.at)?;
                Some((false, format!("{} {above}", printable(&function))))
            }
            RootPlace::Data(_) | RootPlace::Mapping(_) | RootPlace::Registers(_) => None,
        }
    }

    /// The program's thread-local variable at an address, and the offset in it.
    fn thread_local(&self, tid: u32, at: Addr) -> Option<String> {
        let below = self.session.thread(tid)?.thread_pointer?.checked_since(at)?;
        let (name, offset) = thread_local(self.session.process, below)?;
        let offset = if offset == 0 { String::new() } else { format!("+{offset:#x}") };
        Some(format!("{}{offset}", printable(&name)))
    }

    /// The name of a root.
    pub(super) fn name_of(&self, group: &RootGroup) -> String {
        match group.place {
            RootPlace::Data(_) => self.variable(group.at),
            RootPlace::Tls(tid) => match (self.thread_local(tid, group.at), self.same_key(group)) {
                (Some(name), _) => format!("the thread-local variable {name} of thread {tid}"),
                (None, Some((_, below))) => format!("a thread-local variable, {below}, of thread {tid}"),
                (None, None) => format!("a thread-local variable of thread {tid}"),
            },
            RootPlace::Mapping(start) => format!("the mapping at {start}"),
            RootPlace::Stack(tid) => match self.stacks.function_at(tid, group.at) {
                Some((function, _)) => {
                    format!("a local variable of {} (stack of thread {tid})", printable(&function))
                }
                None => format!("the stack of thread {tid}"),
            },
            RootPlace::Registers(tid) => format!("a register of thread {tid}"),
        }
    }

    /// A variable of a module with the offset in it, or the position in its section.
    fn variable(&self, at: Addr) -> String {
        if let Some(symbol) = self.session.symbols().resolve_data(at).filter(|symbol| symbol.sized) {
            let offset = if symbol.offset == 0 { String::new() } else { format!("+{:#x}", symbol.offset) };
            return format!("{}{offset}", printable(&symbol.name));
        }
        let region = self.session.map().region_at(at);
        region.map_or_else(|| at.to_string(), |region| place(self.session, region, at))
    }
}
