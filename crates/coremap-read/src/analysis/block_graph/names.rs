//! Names of blocks' holders: variables, thread-local variables and locals of functions.

use crate::addr::Addr;
use crate::analysis::block_graph::facts::SameKey;
use crate::analysis::block_graph::roots::{RootGroup, RootPlace};
use crate::analysis::block_graph::scene::Scene;
use crate::analysis::place::place;
use crate::bytes::printable;
use crate::native::thread_local;
use crate::report::{NativeRootKind, NativeRootRow};

impl Scene<'_, '_> {
    /// Returns a key that is the same for one variable in all threads: its distance from the thread pointer, or its
    /// function and frame.
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

    /// Returns the program's thread-local variable at an address, and the offset in it.
    fn thread_local(&self, tid: u32, at: Addr) -> Option<String> {
        let below = self.session.thread(tid)?.thread_pointer?.checked_since(at)?;
        let (name, offset) = thread_local(self.session.process, below)?;
        let offset = if offset == 0 { String::new() } else { format!("+{offset:#x}") };
        Some(format!("{}{offset}", printable(&name)))
    }

    /// Returns a root with its name.
    pub(super) fn name_of(&self, group: &RootGroup) -> NativeRootRow {
        match group.place {
            RootPlace::Data(module) => self.variable(group.at, module),
            RootPlace::Tls(tid) => {
                let symbol = self.thread_local(tid, group.at);
                let name = match (&symbol, self.same_key(group)) {
                    (Some(name), _) => format!("the thread-local variable {name} of thread {tid}"),
                    (None, Some((_, below))) => format!("a thread-local variable, {below}, of thread {tid}"),
                    (None, None) => format!("a thread-local variable of thread {tid}"),
                };
                let kind = Some(NativeRootKind::Tls);
                NativeRootRow { kind, symbol, thread: Some(tid), name, ..NativeRootRow::default() }
            }
            RootPlace::Mapping(start) => {
                let region = self.session.map().region_at(start);
                let is_managed = region.is_some_and(|region| region.kind.holds_objects());
                let kind = is_managed.then_some(NativeRootKind::Object);
                let what = if is_managed { "the managed heap" } else { "the mapping" };
                NativeRootRow { kind, name: format!("{what} at {start}"), ..NativeRootRow::default() }
            }
            RootPlace::Stack(tid) => {
                let function = self.stacks.function_at(tid, group.at).map(|(name, _)| printable(&name).into_owned());
                let name = match &function {
                    Some(function) => format!("a local variable of {function} (stack of thread {tid})"),
                    None => format!("the stack of thread {tid}"),
                };
                let kind = Some(NativeRootKind::Stack);
                NativeRootRow { kind, function, thread: Some(tid), name, ..NativeRootRow::default() }
            }
            RootPlace::Registers(tid) => NativeRootRow {
                kind: Some(NativeRootKind::Register),
                thread: Some(tid),
                name: format!("a register of thread {tid}"),
                ..NativeRootRow::default()
            },
        }
    }

    /// Returns a variable of a module with the offset in it, or else the position in its section.
    fn variable(&self, at: Addr, module: u32) -> NativeRootRow {
        let of = self.session.process.modules.get(module as usize);
        let symbol = self.session.symbols().resolve_data(at).filter(|symbol| symbol.sized);
        let offset = |inside: u64| if inside == 0 { String::new() } else { format!("+{inside:#x}") };
        let symbol = symbol.map(|symbol| format!("{}{}", printable(&symbol.name), offset(symbol.offset)));
        let region = self.session.map().region_at(at);
        let position = || region.map_or_else(|| at.to_string(), |region| place(self.session, region, at));
        NativeRootRow {
            kind: Some(NativeRootKind::Global),
            module: of.map(|module| printable(module.name()).into_owned()),
            offset: of.and_then(|module| at.checked_since(module.range.start)).map(Addr::new),
            name: symbol.clone().unwrap_or_else(position),
            symbol,
            ..NativeRootRow::default()
        }
    }
}
