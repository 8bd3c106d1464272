//! [`ManagedCode`] for the VM's code cache.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::registers::Regs;
use crate::runtimes::api::{
    CodeAt, CodeEntry, CodeEntryKind, CodeStub, CodeVersion, FrameAt, Inlined, ManagedCode, ManagedFrame, Method,
    MethodDetail, Source, UnwindError,
};
use crate::runtimes::hotspot::classes::MethodInfo;
use crate::runtimes::hotspot::code::{Blob, Code, CodeHeap, Compiled};

/// Name of the code that runs at an address in the interpreter.
const INTERPRETED: &str = "interpreted Java frame";

/// The state of a compiled method that can be entered (nmethod::in_use, equal in JDK 11 to 25).
const IN_USE: i8 = 0;

impl ManagedCode for Code<'_> {
    fn ranges(&self) -> Vec<AddrRange> {
        self.heaps().iter().map(|heap| heap.committed).collect()
    }

    fn code_at(&self, ip: Addr) -> Option<CodeAt> {
        let heap = self.heap_at(ip)?;
        if let Some(codelet) = self.interpreter().filter(|i| i.range.contains(ip)) {
            let known = codelet.codelet(ip);
            let name = known.map_or_else(|| "outside of its codelets".to_owned(), |codelet| codelet.title());
            let start = known.map_or(codelet.range.start, |codelet| codelet.range.start);
            return Some(stub("interpreter codelet", start, name, Some(INTERPRETED)));
        }
        let Some(blob) = self.blob_at(ip) else {
            return Some(CodeAt::Other(format!("in the code cache at {}, but in no code blob", heap.committed.start)));
        };
        Some(match &blob.compiled {
            _ if !blob.code.contains(ip) => {
                CodeAt::Other(format!("data of {}, outside of its code at {}", self.title(blob), blob.code))
            }
            Some(compiled) => match self.method(blob, compiled) {
                Some(method) => CodeAt::Method(Arc::new(method)),
                None => CodeAt::Other(format!("{} at {}, whose method can't be read", blob.name, blob.code.start)),
            },
            None => stub("stub", blob.code.start, self.stub_name(blob, ip), None),
        })
    }

    fn unwind(&self, regs: &Regs, _exact: bool) -> Result<Regs, UnwindError> {
        Err(UnwindError::Unsupported { ip: regs.ip(), why: "frames of Java code can't be unwound" })
    }

    fn frame(&self, at: &FrameAt<'_>) -> Option<ManagedFrame> {
        self.frame_of(at)
    }

    fn source(&self, method: &Method, ip: Addr) -> Source {
        let found = self.blob_at(method.start).and_then(|blob| {
            let (own, bci) = self.scopes(blob, ip).pop()?;
            // A method inlined into itself also ends with itself.
            Some(self.source_of(&*self.classes.method(own).filter(|_| Some(own) == method.id)?, bci))
        });
        found.unwrap_or_else(|| {
            let info = method.id.and_then(|id| self.classes.method(id)).filter(|info| !info.is_native);
            Source { file: info.and_then(|info| info.file.clone()), ..Source::default() }
        })
    }

    fn inlined(&self, method: &Method, ip: Addr) -> Vec<Inlined> {
        let Some(blob) = self.blob_at(method.start) else { return Vec::new() };
        let mut scopes = self.scopes(blob, ip);
        // The last scope is the method itself.
        if scopes.pop().map(|(own, _)| own) != method.id {
            return Vec::new();
        }
        let of = |(inner, bci)| match self.classes.method(inner) {
            Some(info) => Inlined { method: info.name.clone(), source: self.source_of(&info, bci) },
            None => Inlined { method: format!("a method at {inner} that can't be read"), source: Source::default() },
        };
        scopes.into_iter().map(of).collect()
    }

    fn detail(&self, method: &Method) -> MethodDetail {
        let Some(blob) = self.blob_at(method.start) else { return MethodDetail::default() };
        let Some(compiled) = &blob.compiled else { return MethodDetail::default() };
        let info = self.classes.method(compiled.method);
        let same = self.heaps().iter().flat_map(|heap| self.blobs(heap));
        let same = same.filter_map(|blob| Some((blob, blob.compiled.as_ref()?)));
        let version = |(blob, of): (&Blob, &Compiled)| CodeVersion {
            code: blob.code.start,
            tier: self.tier(of),
            node: Addr::NULL,
            il_version: 0,
        };
        MethodDetail {
            class: info.as_ref().map(|info| info.holder),
            il_address: info.as_ref().filter(|info| !info.code.is_empty()).map(|info| info.code.start),
            jitted: Some(true),
            versions: same.filter(|(_, of)| of.method == compiled.method).map(version).collect(),
            note: note(compiled),
            ..MethodDetail::default()
        }
    }

    fn name_of(&self, id: Addr) -> Option<String> {
        self.classes.method(id).map(|info| info.name.clone())
    }

    fn each(&self, visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {
        for blob in self.heaps().iter().flat_map(|heap: &CodeHeap| self.blobs(heap)) {
            let (start, size) = (blob.code.start, blob.code.len());
            let title = self.title(blob);
            let kind = match &blob.compiled {
                Some(of) => CodeEntryKind::Method { name: &title, tier: Some(self.tier(of)), cold: None },
                None => CodeEntryKind::Stub(&title),
            };
            if !visit(CodeEntry { kind, start, size }) {
                return;
            }
        }
    }

    /// `Compiler.perfmap` writes only names.
    fn tier_in_perf_map(&self) -> bool {
        false
    }
}

fn stub(kind: &'static str, start: Addr, name: String, runs: Option<&'static str>) -> CodeAt {
    CodeAt::Stub(CodeStub { kind, start, target: None, of: None, name: Some(name), runs })
}

fn note(compiled: &Compiled) -> Option<String> {
    let osr = compiled.osr.map(|bci| {
        format!(
            "compiled while the method ran, entered at bytecode {bci} (on-stack \
                                        replacement)"
        )
    });
    let state = match compiled.state {
        IN_USE => None,
        state if state < IN_USE => Some("not yet installed".to_owned()),
        state => Some(format!("no longer entered (state {state}); existing frames may still run it")),
    };
    let parts: Vec<String> = osr.into_iter().chain(state).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

impl Code<'_> {
    fn method(&self, blob: &Blob, compiled: &Compiled) -> Option<Method> {
        let info = self.classes.method(compiled.method)?;
        Some(self.with_code(&info, blob.code.start, blob.code.len()))
    }

    /// Returns the compiler and the compilation level (CompLevel, compilerDefinitions.hpp).
    fn tier(&self, compiled: &Compiled) -> &'static str {
        match compiled.level {
            _ if compiled.native => "native",
            0 => "native",
            1 => "C1 1",
            2 => "C1 2",
            3 => "C1 3",
            // Graal, if it replaces C2.
            4 if self.classes.vm.is_set("UseJVMCICompiler") => "JVMCI 4",
            4 => "C2 4",
            _ => "unknown level",
        }
    }

    fn source_of(&self, info: &MethodInfo, bci: i32) -> Source {
        let line = u32::try_from(bci).ok().and_then(|bci| self.classes.line(info, bci));
        Source { il_offset: Some(bci.into()), file: info.file.clone().filter(|_| !info.is_native), line, column: None }
    }

    /// Returns a blob's name in the VM's own perf map: a method with its return type, or the VM's name of the blob.
    fn title(&self, blob: &Blob) -> String {
        match blob.compiled.as_ref().and_then(|of| self.classes.method(of.method)) {
            Some(info) => format!("{} {}", info.returns, info.name),
            None => blob.name.to_string(),
        }
    }

    /// Returns the name of a stub: its blob's name. In a blob with many stubs, the last routine before `ip` that the
    /// tables name is added.
    fn stub_name(&self, blob: &Blob, ip: Addr) -> String {
        // A lookup of a caller passes the byte before the return address.
        let returns = self.call_stub_return();
        if returns.is_some_and(|returns| ip == returns || ip == returns.saturating_sub(1)) {
            return format!("{}: call_stub (return)", blob.name);
        }
        let routines = self.routines();
        let before = routines.partition_point(|routine| routine.entry <= ip).checked_sub(1);
        let before = before.and_then(|i| routines.get(i)).filter(|routine| blob.code.contains(routine.entry));
        match before {
            Some(routine) if routine.entry == ip => format!("{}: {}", blob.name, routine.name),
            Some(routine) => format!("{}: {}, or past its end", blob.name, routine.name),
            None => blob.name.to_string(),
        }
    }
}
