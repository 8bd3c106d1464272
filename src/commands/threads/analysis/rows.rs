use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::bytes::printable;
use crate::image::Module;
use crate::process::Process;
use crate::report::{FrameRow, FrameRowKind, Name, Trust};
use crate::runtimes::api::{
    Execution, FrameKind, LightFrame, Mark, Method, MethodRole, Position, RuntimeId, Source, StackFrame,
};
use crate::session::Session;
use crate::targets::at;

/// Name of a module. `None` if no file list has one.
fn named(name: &str) -> Option<Name> {
    (!name.is_empty()).then(|| Name::from(&*printable(name)))
}

/// Class shown for a frame that dispatches an exception.
const DISPATCH: &str = "exception dispatch";

/// Class shown for frames of an interpreter if another runtime in the process has compiled methods. Then only compiled
/// methods are `managed`, so the managed frames of a stack match the other runtime's own tools.
const INTERPRETED: &str = "interpreted";

/// Maximum number of modules checked below an address. More never nest in each other's holes.
const MAX_NESTED: usize = 16;

/// Returns the module that contains an address. If several do, the one that begins last.
pub(super) fn module_at(process: &Process, ip: Addr) -> Option<&Module> {
    let after = process.modules.partition_point(|m| m.range.start <= ip);
    process.modules.get(..after)?.iter().rev().take(MAX_NESTED).find(|m| m.range.contains(ip))
}

/// Cache key of a row whose method comes from the frame itself.
type FrameKey = (*const Method, Option<i64>, Option<u32>, Option<Execution>);

/// Parts of the names of system libraries.
const SYSTEM: [&str; 4] = [".so", "[vdso]", "ld-linux", "ld-musl"];

/// Prefixes of functions that are in every program: start code, and the standard libraries of C++ and Rust.
const STANDARD: [&str; 8] = ["_start", "__", "std::", "core::", "alloc::", "<core::", "<alloc::", "<std::"];

/// Whether a native function is the program's.
fn is_own(module: &str, function: &str) -> bool {
    !SYSTEM.iter().any(|part| module.contains(part)) && !STANDARD.iter().any(|start| function.starts_with(start))
}

/// Makes rows of frames. Rows are cached by address.
pub(super) struct Rows<'a, 's, 'p> {
    process: &'p Process,
    names: &'a Names<'s, 'p>,
    native: HashMap<(Addr, bool), FrameRow>,
    managed: HashMap<(Addr, bool), FrameRow>,
    methods: HashMap<Addr, Option<Name>>,
    /// Cached rows by method, bytecode offset, line and execution mode.
    by_frame: HashMap<FrameKey, (Arc<Method>, FrameRow)>,
    runtimes: HashMap<RuntimeId, Name>,
    /// Runtimes without compiled code, if another runtime has some.
    interpreters: HashSet<RuntimeId>,
}

impl<'a, 's, 'p> Rows<'a, 's, 'p> {
    pub(super) fn new(session: &Session<'p>, names: &'a Names<'s, 'p>) -> Rows<'a, 's, 'p> {
        let (native, managed, methods, by_frame) = Default::default();
        let runtimes = session.runtimes_by_id();
        let mut interpreters: HashSet<RuntimeId> =
            runtimes.iter().filter(|(_, runtime)| runtime.code().ranges().is_empty()).map(|(id, _)| *id).collect();
        if interpreters.len() == runtimes.len() {
            interpreters.clear();
        }
        let runtimes = runtimes.iter().map(|(id, runtime)| (*id, Name::from(&*runtime.row().name))).collect();
        Rows { process: session.process, names, native, managed, methods, by_frame, runtimes, interpreters }
    }

    pub(super) fn frame(&mut self, frame: &StackFrame) -> FrameRow {
        let key = (frame.ip, frame.exact);
        let mut row = match &frame.kind {
            FrameKind::Mark(mark) => self.mark(mark),
            FrameKind::Native => match self.native.get(&key) {
                Some(row) => row.clone(),
                None => {
                    let row = self.of_native(frame);
                    self.native.insert(key, row.clone());
                    row
                }
            },
            FrameKind::Managed(runtime, method) | FrameKind::Dispatch(runtime, method) => {
                let row = match (&frame.position, self.managed.get(&key)) {
                    (Some(position), _) => self.row_from_frame(frame.code(), frame.exact, *runtime, method, position),
                    (None, Some(row)) => row.clone(),
                    (None, None) => {
                        let row = self.of_method(frame, *runtime, method);
                        self.managed.insert(key, row.clone());
                        row
                    }
                };
                match frame.kind {
                    FrameKind::Dispatch(..) => FrameRow { kind: FrameRowKind::Frame, frame: Some(DISPATCH), ..row },
                    _ if self.interpreters.contains(runtime) => {
                        FrameRow { kind: FrameRowKind::Frame, frame: Some(INTERPRETED), ..row }
                    }
                    _ => row,
                }
            }
        };
        row.sp = frame.sp;
        row.ip = Some(frame.ip).filter(|ip| !ip.is_null() || frame.exact);
        row.trust = frame.trust;
        row
    }

    fn mark(&mut self, mark: &Mark) -> FrameRow {
        let names = self.names;
        let name = mark.method.and_then(|id| {
            let of = || names.runtimes().find_map(|code| code.name_of(id).map(|n| Name::from(&*printable(&n))));
            self.methods.entry(id).or_insert_with(of).clone()
        });
        FrameRow {
            kind: FrameRowKind::Frame,
            frame: Some(mark.class),
            method_desc: mark.method.filter(|_| name.is_some()),
            method: name,
            ..FrameRow::default()
        }
    }

    /// Row of a frame of a virtual thread.
    pub(super) fn virtual_frame(&mut self, runtime: RuntimeId, frame: &LightFrame) -> FrameRow {
        let row = self.row_from_frame(
            frame.ip.saturating_sub(1),
            false,
            runtime,
            &frame.activation.method,
            &frame.activation.position,
        );
        FrameRow { ip: Some(frame.ip), sp: frame.sp, trust: Trust::UnwindData, ..row }
    }

    /// Row of a frame whose method comes from the frame, not from its address. `code` is the address of the call,
    /// unless `exact`.
    fn row_from_frame(
        &mut self,
        code: Addr,
        exact: bool,
        runtime: RuntimeId,
        method: &Arc<Method>,
        position: &Position,
    ) -> FrameRow {
        let key = (Arc::as_ptr(method), position.source.il_offset, position.source.line, position.how);
        let row = match self.by_frame.get(&key) {
            Some((_, row)) => row.clone(),
            None => {
                let source = position.source.clone();
                let row = FrameRow {
                    bci: source.il_offset,
                    how: position.how,
                    ..self.described(runtime, method, Source { il_offset: None, ..source })
                };
                // Storing the method with its row keeps it alive, so that no other method can get its address.
                self.by_frame.insert(key, (method.clone(), row.clone()));
                row
            }
        };
        // The code of an inlined method belongs to another method, and an interpreter's code to none.
        let offset = method.offset_of(code).filter(|_| position.how != Some(Execution::Inlined));
        FrameRow { offset: offset.map(|at| at + u64::from(!exact)), ..row }
    }

    fn of_method(&self, frame: &StackFrame, runtime: RuntimeId, method: &Method) -> FrameRow {
        let source = self.names.source(runtime, method, frame.code());
        FrameRow {
            offset: method.offset_of(frame.code()).map(|at| at + u64::from(!frame.exact)),
            ..self.described(runtime, method, source)
        }
    }

    fn described(&self, runtime: RuntimeId, method: &Method, source: Source) -> FrameRow {
        FrameRow {
            kind: FrameRowKind::Managed,
            runtime: self.runtimes.get(&runtime).cloned(),
            method: Some(Name::from(&*method.name)),
            method_desc: method.id,
            module: Some(Name::from(&*method.module)),
            token: method.token.as_deref().map(Name::from),
            il_offset: source.il_offset,
            file: source.file.map(Name::from),
            line: source.line,
            column: source.column,
            own: method.role == MethodRole::Program,
            ..FrameRow::default()
        }
    }

    fn of_native(&self, frame: &StackFrame) -> FrameRow {
        let row = FrameRow { kind: FrameRowKind::Native, ..FrameRow::default() };
        match self.names.code(frame.code()) {
            Code::Native(symbol) => FrameRow {
                own: is_own(self.names.native_module(&symbol), &symbol.name),
                module: named(self.names.native_module(&symbol)),
                method: Some(Name::from(&*printable(&symbol.name))),
                offset: Some(symbol.offset + u64::from(!frame.exact)),
                ..row
            },
            Code::Stub(stub) => FrameRow {
                method: Some(Name::from(&*printable(&stub.title()))),
                offset: Some(frame.ip.since(stub.start)),
                ..row
            },
            // Without its file, a program's own code is known by its module.
            _ => {
                let row = self.in_module(frame.ip, row);
                let own = self.runtimes.is_empty() && row.module.as_deref().is_some_and(|module| is_own(module, ""));
                FrameRow { own, ..row }
            }
        }
    }

    fn in_module(&self, ip: Addr, row: FrameRow) -> FrameRow {
        if let Some(module) = module_at(self.process, ip) {
            return FrameRow { module: named(module.name()), offset: Some(ip.since(module.range.start)), ..row };
        }
        let vdso = self.process.auxv(at::SYSINFO_EHDR).map(Addr::new);
        match vdso.filter(|&base| ip >= base && ip.since(base) < 16 << 10) {
            Some(base) => FrameRow { module: Some("[vdso]".into()), offset: Some(ip.since(base)), ..row },
            None => row,
        }
    }
}
