//! Names of what holds blocks: variables, thread-local variables and locals of functions.

use crate::addr::Addr;
use crate::analysis::block_graph::facts::{SameKey, Scene};
use crate::analysis::block_graph::roots::{RootGroup, RootPlace};
use crate::analysis::place::place;
use crate::bytes::printable;
use crate::native::thread_local;

/// Starts of names of functions that are in every program.
const STANDARD: [&str; 5] = ["std::", "core::", "alloc::", "__", "_start"];

impl Scene<'_, '_> {
    /// The same variable of several threads: by its distance from the thread pointer, or by its function.
    pub(super) fn same_key(&self, group: &RootGroup) -> Option<SameKey> {
        match group.place {
            RootPlace::Tls(tid) => {
                let pointer = self.session.thread(tid)?.thread_pointer?;
                let below = pointer.checked_since(group.at)?;
                Some((true, format!("{below:#x} bytes below its thread pointer")))
            }
            RootPlace::Stack(tid) => {
                let (function, above) = self.function_at(tid, group.at)?;
                Some((false, format!("{function} {above}")))
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

    /// The function whose frame has the address, and how far the address is from the frame's end.
    fn function_at(&self, tid: u32, at: Addr) -> Option<(String, u64)> {
        let walker = self.session.walker(self.session.known_stacks());
        let walk = self.session.walk_tid(&walker, tid)?;
        let found = walk.frames.windows(2).position(|pair| {
            let [here, next] = pair else { return false };
            here.sp <= at && at < next.sp
        })?;
        let next = walk.frames.get(found.checked_add(1)?)?;
        let symbols = self.session.symbols();
        let named = || walk.frames.iter().skip(found).filter_map(|frame| symbols.resolve(frame.code()));
        // A library function may have the variable in its own frame, as what the program's function gave to it.
        let is_own = |name: &str| !STANDARD.iter().any(|start| name.trim_start_matches('<').starts_with(start));
        let name = named().map(|symbol| symbol.name).find(|name| is_own(name))?;
        let name = printable(&name).into_owned();
        Some((name, next.sp.since(at)))
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
            RootPlace::Stack(tid) => match self.function_at(tid, group.at) {
                Some((function, _)) => format!("a local variable of {function} (stack of thread {tid})"),
                None => format!("the stack of thread {tid}"),
            },
            RootPlace::Registers(tid) => format!("a register of thread {tid}"),
        }
    }

    /// A variable of a module: `app sessions+0x8`, or the place in its section.
    fn variable(&self, at: Addr) -> String {
        if let Some(symbol) = self.session.symbols().resolve_data(at).filter(|symbol| symbol.sized) {
            let offset = if symbol.offset == 0 { String::new() } else { format!("+{:#x}", symbol.offset) };
            return format!("{}{offset}", printable(&symbol.name));
        }
        let region = self.session.map().region_at(at);
        region.map_or_else(|| at.to_string(), |region| place(self.session, region, at))
    }
}
