//! Implements [`ManagedCode`] for CoreCLR.

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::diag::WarningCode;
use crate::registers::Regs;
use crate::runtimes::api::{
    self, CodeEntry, CodeEntryKind, CodeFile, CodeStub, ManagedCode, Method, MethodDetail, Source, UnwindError,
};
use crate::runtimes::coreclr::code::Stub;
use crate::runtimes::coreclr::loader::executable_memory;
use crate::runtimes::coreclr::methods::{CodeAt, Methods, step_at};

fn stub(stub: &Stub, of: Option<String>) -> CodeStub {
    CodeStub { kind: stub.kind.name(), start: stub.start, target: stub.target, of, name: None, runs: None }
}

impl ManagedCode for Methods<'_> {
    fn ranges(&self) -> Vec<AddrRange> {
        self.ranges().iter().map(|r| r.range).collect()
    }

    fn code_at(&self, ip: Addr) -> Option<api::CodeAt> {
        Some(match self.at(ip)? {
            CodeAt::Method(method) => api::CodeAt::Method(method.facts().clone()),
            CodeAt::Stub(found, of) => api::CodeAt::Stub(stub(&found, of)),
            CodeAt::StubBlock(kind) => api::CodeAt::Other(format!("a block of stubs of kind {kind}")),
            CodeAt::Nothing(why) => api::CodeAt::Other(why),
        })
    }

    fn stub_shaped(&self, ip: Addr) -> Option<CodeStub> {
        self.stub_at(ip).map(|(found, of)| stub(&found, of))
    }

    fn unwind(&self, regs: &Regs, exact: bool) -> Result<Regs, UnwindError> {
        let error = |e| UnwindError::Unreadable { ip: regs.ip(), source: Box::new(e) };
        Methods::unwind(self, regs, exact).map_err(error)
    }

    fn caller_sp_from_sp(&self, regs: &Regs) -> Option<Addr> {
        Methods::caller_sp_from_sp(self, regs)
    }

    fn is_funclet(&self, ip: Addr, exact: bool) -> bool {
        Methods::is_funclet(self, if exact { ip } else { ip.saturating_sub(1) })
    }

    fn source(&self, method: &Method, ip: Addr) -> Source {
        let Some(CodeAt::Method(ours)) = self.at(method.start) else { return Source::default() };
        let steps = self.il_map(&ours);
        let step = steps.as_deref().and_then(|s| step_at(s, ip.since(method.start)));
        let line = step.and_then(|s| ours.module.line(&self.types, ours.token.rid(), s.il));
        Source {
            il_offset: step.map(|s| s.il),
            file: line.as_ref().map(|l| printable(&l.file).into_owned()),
            line: line.map(|l| l.line),
            column: None,
        }
    }

    fn detail(&self, method: &Method) -> MethodDetail {
        let Some(CodeAt::Method(ours)) = self.at(method.start) else { return MethodDetail::default() };
        let module = &ours.module;
        let missing = |why: &String| match module.container(&self.types) {
            Some(program) => format!(
                "no metadata of {}: it is in the single-file program {program}; give its folder with --symbols",
                module.name()
            ),
            None => format!(
                "no metadata of {}: {why}; give the folder of the program's files with --symbols",
                module.name()
            ),
        };
        MethodDetail {
            class: ours.desc.as_ref().and_then(|d| self.types.ee_class(d.method_table).ok()),
            method_table: ours.desc.as_ref().map(|d| d.method_table),
            module_path: (!module.path.is_empty()).then(|| module.path.clone()),
            module_address: Some(module.addr),
            il_address: module.il_address(ours.token.rid()),
            jitted: Some(ours.jitted),
            versions: self.versions(&ours),
            note: module.missing.as_ref().map(missing),
        }
    }

    fn name_of(&self, id: Addr) -> Option<String> {
        let desc = self.types.method_desc(id).ok()?;
        // Any word could be read as a MethodDesc.
        let module = self.types.module(self.types.module_of(desc.method_table).ok()?);
        (module.metadata.is_some() || !module.path.is_empty()).then(|| self.types.method_name(&desc))
    }

    fn each(&self, visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {
        self.all(|found| match found {
            Ok(method) => {
                let tier = self.versions(&method).iter().find(|v| v.code == method.start).map(|v| v.tier);
                let kind = CodeEntryKind::Method { name: &method.name, tier, cold: method.cold };
                visit(CodeEntry { kind, start: method.start, size: method.size })
            }
            Err(stubs) => {
                visit(CodeEntry { kind: CodeEntryKind::Stubs(stubs.kind), start: stubs.start, size: stubs.size })
            }
        });
    }

    /// The memfd with code, which not every version of createdump lists.
    fn files(&self) -> Vec<CodeFile> {
        let (process, runtime) = (self.types.process, &self.types.runtime);
        let (Some(found), Some(path)) = (executable_memory(process, runtime), runtime.code_file()) else {
            return Vec::new();
        };
        found.blocks.iter().map(|b| CodeFile { range: b.range, offset: b.offset, path: path.to_owned() }).collect()
    }

    fn warn_missing(&self) {
        if let Some(missing) = self.types.missing() {
            self.types.process.diag.note(WarningCode::Metadata, missing);
        }
    }
}
