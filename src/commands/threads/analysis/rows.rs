use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::bytes::printable;
use crate::image::Module;
use crate::process::Process;
use crate::report::{FrameRow, FrameRowKind, Name, Trust};
use crate::runtimes::api::{Execution, FrameKind, LightFrame, Mark, Method, Position, RuntimeId, Source, StackFrame};
use crate::session::Session;
use crate::targets::at;

/// A module's name; none where no file list gave it one.
fn named(name: &str) -> Option<Name> {
    (!name.is_empty()).then(|| Name::from(&*printable(name)))
}

/// What stands for the class of a frame that finds an exception's handler.
const DISPATCH: &str = "exception dispatch";

/// What a frame of an interpreter is called in a process that has compiled methods of another runtime too: only code is
/// `managed` there, so that the managed frames of a stack are those that the other runtime's own tools list.
const INTERPRETED: &str = "interpreted";

/// Modules looked back at from an address: more than lie one in another's holes.
const NESTED: usize = 16;

/// The module that holds an address; of several the one that begins last.
pub(super) fn module_at(process: &Process, ip: Addr) -> Option<&Module> {
    let after = process.modules.partition_point(|m| m.range.start <= ip);
    process.modules.get(..after)?.iter().rev().take(NESTED).find(|m| m.range.contains(ip))
}

/// What the row of a frame that tells its method itself depends on.
type Told = (*const Method, Option<i64>, Option<Execution>);

/// Rows of frames; those of the same address are made once.
pub(super) struct Rows<'a, 's, 'p> {
    process: &'p Process,
    names: &'a Names<'s, 'p>,
    native: HashMap<(Addr, bool), FrameRow>,
    managed: HashMap<(Addr, bool), FrameRow>,
    methods: HashMap<Addr, Option<Name>>,
    /// By the method, its bytecode and how it runs.
    told: HashMap<Told, (Arc<Method>, FrameRow)>,
    /// Names of runtimes.
    runtimes: HashMap<RuntimeId, Name>,
    /// Runtimes without code, if another has some.
    interpreters: HashSet<RuntimeId>,
}

impl<'a, 's, 'p> Rows<'a, 's, 'p> {
    pub(super) fn new(session: &Session<'p>, names: &'a Names<'s, 'p>) -> Rows<'a, 's, 'p> {
        let (native, managed, methods, told) = Default::default();
        let runtimes = session.runtimes_by_id();
        let mut interpreters: HashSet<RuntimeId> =
            runtimes.iter().filter(|(_, runtime)| runtime.code().ranges().is_empty()).map(|(id, _)| *id).collect();
        if interpreters.len() == runtimes.len() {
            interpreters.clear();
        }
        let runtimes = runtimes.iter().map(|(id, runtime)| (*id, Name::from(&*runtime.row().name))).collect();
        Rows { process: session.process, names, native, managed, methods, told, runtimes, interpreters }
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
                    (Some(position), _) => self.told(frame.code(), frame.exact, *runtime, method, position),
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

    /// A frame that is on no thread of the system.
    pub(super) fn light(&mut self, runtime: RuntimeId, frame: &LightFrame) -> FrameRow {
        let row =
            self.told(frame.ip.saturating_sub(1), false, runtime, &frame.activation.method, &frame.activation.position);
        FrameRow { ip: Some(frame.ip), sp: frame.sp, trust: Trust::UnwindData, ..row }
    }

    /// A method that the frame tells, and not its address; `code`: that of the call, unless `exact`.
    fn told(
        &mut self,
        code: Addr,
        exact: bool,
        runtime: RuntimeId,
        method: &Arc<Method>,
        position: &Position,
    ) -> FrameRow {
        let key = (Arc::as_ptr(method), position.source.il_offset, position.how);
        let row = match self.told.get(&key) {
            Some((_, row)) => row.clone(),
            None => {
                let source = position.source.clone();
                let row = FrameRow {
                    bci: source.il_offset,
                    how: position.how,
                    ..self.described(runtime, method, Source { il_offset: None, ..source })
                };
                // The method is kept with its row, or another could come to stand at its address.
                self.told.insert(key, (method.clone(), row.clone()));
                row
            }
        };
        // Of one that was inlined the code is another's, and an interpreter's is no method's.
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
            ..FrameRow::default()
        }
    }

    fn of_native(&self, frame: &StackFrame) -> FrameRow {
        let row = FrameRow { kind: FrameRowKind::Native, ..FrameRow::default() };
        match self.names.code(frame.code()) {
            Code::Native(symbol) => FrameRow {
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
            _ => self.in_module(frame.ip, row),
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
