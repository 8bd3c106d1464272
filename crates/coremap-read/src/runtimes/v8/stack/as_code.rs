//! [`ManagedCode`] for V8's generated code.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::registers::Regs;
use crate::runtimes::api::{
    Caller, CodeAt, CodeEntry, CodeStub, FrameAt, ManagedCode, ManagedFrame, Source, UnwindError,
};
use crate::runtimes::api::{Mark, Method};
use crate::runtimes::v8::node_v8::Parts;
use crate::runtimes::v8::stack::FrameRecord;

/// The code of a V8.
pub(in crate::runtimes::v8) struct Code<'p> {
    parts: Arc<Parts<'p>>,
}

impl<'p> Code<'p> {
    pub(in crate::runtimes::v8) fn new(parts: Arc<Parts<'p>>) -> Code<'p> {
        Code { parts }
    }

    /// Returns the frame with these registers. The frame pointer alone is not enough, because a C++ function may leave
    /// it unchanged. So the code address must match too.
    fn record(&self, at: &FrameAt<'_>) -> Option<&FrameRecord> {
        let fp = at.regs.fp()?;
        let stacks = self.parts.stacks();
        let record = stacks.by_tid.get(&at.tid)?.iter().find(|record| record.fp == fp)?;
        let ip = at.regs.ip();
        let fits = match record.pc {
            Some(pc) => pc == ip,
            None => stacks.builtins.contains(ip) || self.parts.vm.page_of(ip.get()).is_some(),
        };
        fits.then_some(record)
    }
}

impl ManagedCode for Code<'_> {
    fn ranges(&self) -> Vec<AddrRange> {
        let vm = &self.parts.vm;
        let is_code = |space: u8| vm.space_name(space).starts_with("code");
        let pages = vm.pages.iter().filter(|page| is_code(page.space)).map(|page| page.range);
        // The program's builtins may also be mapped as a copy outside of the program.
        let builtins = Some(self.parts.builtins()).filter(|range| !range.is_empty());
        pages.chain(builtins).collect()
    }

    fn code_at(&self, ip: Addr) -> Option<CodeAt> {
        let vm = &self.parts.vm;
        let page = vm.page_of(ip.get()).filter(|page| vm.space_name(page.space).starts_with("code"))?;
        let Some(object) = self.parts.heap().containing(ip) else {
            return Some(CodeAt::Other(format!("in the page of code at {}, but in no object", page.range.start)));
        };
        let (kind, start) = ("compiled JavaScript", Addr::new(object));
        let runs = Some("compiled JavaScript frame");
        Some(CodeAt::Stub(CodeStub { kind, start, target: None, of: None, name: None, runs }))
    }

    fn unwind(&self, regs: &Regs, _exact: bool) -> Result<Regs, UnwindError> {
        Err(UnwindError::Unsupported { ip: regs.ip(), why: "V8's frames are found by their frame pointers" })
    }

    fn frame(&self, at: &FrameAt<'_>) -> Option<ManagedFrame> {
        let record = self.record(at)?;
        let vm = &self.parts.vm;
        let caller = (|| {
            let ip = Addr::new(vm.word(record.fp.checked_add(8)?.get())?);
            let mut regs = Regs::new(at.regs.arch(), ip, record.fp.checked_add(16)?);
            regs.set(regs.fp_number(), vm.word(record.fp.get()));
            Some(regs)
        })();
        let caller = caller.map_or(Caller::Unknown, |regs| Caller::Regs(Box::new(regs)));
        Some(ManagedFrame { methods: record.activation.clone().into_iter().collect(), caller })
    }

    fn source(&self, _method: &Method, _ip: Addr) -> Source {
        Source::default()
    }

    fn name_of(&self, id: Addr) -> Option<String> {
        let vm = &self.parts.vm;
        vm.is(id.get(), "SHARED_FUNCTION_INFO").then(|| vm.function_name(id.get()))
    }

    fn each(&self, _visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {}
}

/// Returns the marks of a thread. Its exit frames lead from C++ back to generated code.
pub(in crate::runtimes::v8) fn marks(frames: &[FrameRecord], arch: crate::targets::Arch) -> Vec<Mark> {
    let mark = |record: &FrameRecord| {
        let (sp, ip) = record.sp.zip(record.pc)?;
        let mut regs = Regs::new(arch, ip, sp);
        regs.set(regs.fp_number(), Some(record.fp.get()));
        Some(Mark {
            addr: record.fp,
            class: "ExitFrame",
            method: None,
            regs: Some(regs),
            exact: false,
            objects: Vec::new(),
        })
    };
    frames.iter().filter_map(mark).collect()
}
