//! The VM's code, as all runtimes tell of theirs.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::hotspot::code::{Blob, Code, Compiled};
use crate::managed::{CodeAt, CodeEntry, FrameAt, ManagedCode, ManagedFrame, Method, MethodRole, Source};
use crate::registers::Regs;

impl ManagedCode for Code<'_> {
    fn ranges(&self) -> Vec<AddrRange> {
        self.heaps().iter().map(|heap| heap.committed).collect()
    }

    fn code_at(&self, ip: Addr) -> Option<CodeAt> {
        let blob = self.blob_at(ip)?;
        let compiled = blob.compiled.as_ref().filter(|_| blob.code.contains(ip))?;
        Some(CodeAt::Method(Arc::new(self.method(blob, compiled)?)))
    }

    fn unwind(&self, _regs: &Regs, _exact: bool) -> Result<Regs, String> {
        Err("frames of Java code are not followed".to_owned())
    }

    fn frame(&self, at: &FrameAt<'_>) -> Option<ManagedFrame> {
        self.frame_of(at)
    }

    fn source(&self, method: &Method, ip: Addr) -> Source {
        let Some(blob) = self.blob_at(method.start) else { return Source::default() };
        let Some(&(inner, bci)) = self.scopes(blob, ip).first() else { return Source::default() };
        let Some(info) = self.classes.method(inner) else { return Source::default() };
        let line = u32::try_from(bci).ok().and_then(|bci| self.classes.line(&info, bci));
        Source { il_offset: Some(bci.into()), file: info.file.clone(), line }
    }

    fn each(&self, _visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {}
}

impl Code<'_> {
    fn method(&self, blob: &Blob, compiled: &Compiled) -> Option<Method> {
        let info = self.classes.method(compiled.method)?;
        Some(Method {
            name: info.name.clone(),
            module: String::new(),
            id: Some(compiled.method),
            token: None,
            start: blob.code.start,
            size: blob.code.len(),
            cold: None,
            role: MethodRole::Program,
        })
    }
}
