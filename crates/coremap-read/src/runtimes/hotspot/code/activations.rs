//! Activations: the methods that run in a frame, with their bytecodes and lines.

use std::sync::{Arc, PoisonError};

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::api::{Activation, Execution, FrameAt, Method, MethodRole, Position, Source};
use crate::runtimes::hotspot::classes::MethodInfo;
use crate::runtimes::hotspot::code::frames::interpreted;
use crate::runtimes::hotspot::code::{Blob, Code};

/// Prefixes of the names of the JDK's modules.
const OF_THE_JDK: [&str; 2] = ["java.", "jdk."];

/// Module of classes on the class path, which has no name.
const UNNAMED: &str = "unnamed module";

/// Methods that threads start in. The names are prefixes.
const STARTS: [&str; 3] =
    ["java.lang.Thread.run", "java.lang.VirtualThread.run", "jdk.internal.misc.InnocuousThread.run"];

impl Code<'_> {
    /// Returns the method that an interpreted frame runs.
    pub(super) fn interpreted(&self, at: &FrameAt<'_>) -> Option<Activation> {
        self.interpreted_by(self.frame_pointer(at)?, self.bcp_register(at))
    }

    /// Returns the method of the interpreted frame with frame pointer `fp`.
    pub fn interpreted_in(&self, fp: Addr) -> Option<Activation> {
        self.interpreted_by(fp, None)
    }

    fn interpreted_by(&self, fp: Addr, bcp: Option<Addr>) -> Option<Activation> {
        let last_sp = self.frame_offset("frame::interpreter_frame_last_sp_offset", interpreted::LAST_SP);
        let method_place = last_sp.checked_add(interpreted::METHOD_FROM_LAST_SP)?;
        let method = self.frame_word(fp, method_place)?;
        let offset = last_sp.checked_add(interpreted::BCP_FROM_LAST_SP)?;
        let kept = self.frame_word(fp, offset);
        let info = self.classes.method(method)?;
        // If metaspace is at low addresses, this word may look like text of four letters.
        self.keep_frame_word(fp, method_place);
        // The register is valid only in the innermost frame. There it is newer than the frame's word.
        let bcp = [bcp, kept].into_iter().flatten().find(|&bcp| info.code.contains(bcp));
        if kept.is_some() && kept == bcp {
            self.keep_frame_word(fp, offset);
        }
        let bci = bcp.map(|bcp| bcp.since(info.code.start) as i64);
        Some(self.activation(&info, Addr::NULL, 0, bci, Execution::Interpreted))
    }

    /// Returns the methods that a compiled frame runs, innermost first. Empty for a stub.
    pub(super) fn compiled(&self, blob: &Blob, at: &FrameAt<'_>) -> Vec<Activation> {
        let ip = at.regs.ip();
        // A deoptimized frame has another return address. The frame stores the original one.
        let original = self.original_pc(blob, ip).and_then(|offset| {
            self.classes.vm.memory.ptr(at.regs.sp().checked_add(offset)?).ok().filter(|&pc| blob.code.contains(pc))
        });
        self.compiled_at(blob, original.unwrap_or(ip))
    }

    /// Returns the methods that run at `pc` of a compiled method, innermost first. Empty for a stub.
    pub fn compiled_at(&self, blob: &Blob, pc: Addr) -> Vec<Activation> {
        let Some(compiled) = &blob.compiled else { return Vec::new() };
        let known = self.scopes(blob, pc).into_iter().map(|(method, bci)| (method, Some(i64::from(bci))));
        let mut scopes: Vec<(Addr, Option<i64>)> = known.collect();
        if scopes.is_empty() {
            scopes.push((compiled.method, None));
        }
        let last = scopes.len() - 1;
        let activation = |(i, (method, bci)): (usize, (Addr, Option<i64>))| {
            let info = self.classes.method(method)?;
            let how = if i == last { Execution::Compiled } else { Execution::Inlined };
            Some(self.activation(&info, blob.code.start, blob.code.len(), bci, how))
        };
        scopes.into_iter().enumerate().filter_map(activation).collect()
    }

    fn activation(
        &self,
        info: &Arc<MethodInfo>,
        start: Addr,
        size: u64,
        bci: Option<i64>,
        how: Execution,
    ) -> Activation {
        let method = self.shared_method(info, start, size);
        // A native method has no bytecode, however it was called.
        if info.is_native {
            let source = Source { file: info.file.clone(), ..Source::default() };
            return Activation { method, position: Position { source, how: Some(Execution::Native) } };
        }
        // The index is -1 before the method has taken its lock (SynchronizationEntryBci). That is shown with the line
        // of bytecode 0.
        let line = bci.and_then(|bci| u32::try_from(bci.max(0)).ok()).and_then(|bci| self.classes.line(info, bci));
        let source = Source { il_offset: bci, file: info.file.clone(), line, column: None };
        Activation { method, position: Position { source, how: Some(how) } }
    }

    /// Returns the shared [`Method`] of all frames of a method with this code.
    pub(super) fn shared_method(&self, info: &MethodInfo, start: Addr, size: u64) -> Arc<Method> {
        let mut known = self.methods.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry((info.address, start)).or_insert_with(|| Arc::new(self.with_code(info, start, size))).clone()
    }

    /// Makes a method with its code. Start and size are 0 if it has none.
    pub(super) fn with_code(&self, info: &MethodInfo, start: Addr, size: u64) -> Method {
        let module = self.classes.module_of(info.holder);
        let role = role(&info.name, module.as_deref());
        let module = module.unwrap_or_else(|| UNNAMED.to_owned());
        Method { name: info.name.clone(), module, id: Some(info.address), token: None, start, size, cold: None, role }
    }
}

/// Classifies a method for the question of what a thread does.
fn role(name: &str, module: Option<&str>) -> MethodRole {
    let plain = name.split_once('(').map_or(name, |(plain, _)| plain);
    if !module.is_some_and(|module| OF_THE_JDK.iter().any(|jdk| module.starts_with(jdk))) {
        MethodRole::Program
    } else if STARTS.iter().any(|start| plain.strip_prefix(start).is_some_and(|rest| !rest.contains('.'))) {
        MethodRole::ThreadStart
    } else {
        MethodRole::Framework
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_methods_these_are() {
        let (base, own) = (Some("java.base"), None);
        for (name, module, expected) in [
            ("java.lang.Thread.run()", base, MethodRole::ThreadStart),
            ("java.lang.Thread.runWith(java.lang.Object, java.lang.Runnable)", base, MethodRole::ThreadStart),
            ("java.lang.Thread.sleep(long)", base, MethodRole::Framework),
            ("javax.inject.Named.value()", own, MethodRole::Program),
            ("Main.main(java.lang.String[])", Some("javafish"), MethodRole::Program),
        ] {
            assert_eq!(role(name, module), expected, "{name}");
        }
    }
}
