//! The frames of all isolates, found by their frame pointers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::BaseEntry;
use crate::memory::Memory;
use crate::registers::Regs;
use crate::runtimes::api::{Activation, Execution, Method, MethodRole, Position, Source};
use crate::runtimes::v8::forms::CodeForm;
use crate::runtimes::v8::functions::{FUNCTION_DATA, place};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::isolates::Isolate;
use crate::runtimes::v8::stack::baseline::BytecodeSizes;
use crate::runtimes::v8::stack::positions;
use crate::runtimes::v8::vm::{Vm, count, reference, smi, strong};

/// Offsets from a frame pointer, in bytes (frame-constants.h).
mod at {
    pub(super) const RETURN: i64 = 8;
    /// Context, or type of the frame.
    pub(super) const CONTEXT: i64 = -8;
    /// The function, or in an exit frame the stack pointer at the call.
    pub(super) const FUNCTION: i64 = -16;
    pub(super) const BYTECODE: i64 = -32;
    pub(super) const OFFSET: i64 = -40;
    /// In an entry frame: the last exit frame before it.
    pub(super) const NEXT_EXIT: i64 = -64;
}

/// Upper bound on the markers of frame types. A marker is twice the number of the type.
const MAX_MARKER: u64 = 256;

/// Maximum number of functions that an optimized function may have inlined.
const MAX_INLINED: u64 = 256;

/// A frame of generated code.
#[derive(Clone, Debug)]
pub(in crate::runtimes::v8) struct FrameRecord {
    pub fp: Addr,
    /// Address at which the frame's code continues. `None` if it is unknown.
    pub pc: Option<Addr>,
    /// Stack pointer at the call of C++, if this is an exit frame.
    pub sp: Option<Addr>,
    /// The JavaScript function that runs in it.
    pub activation: Option<Activation>,
}

/// Frames of all threads.
pub(in crate::runtimes::v8) struct Stacks<'p> {
    heap: Arc<Heap<'p>>,
    /// Names of frame types, by number.
    types: HashMap<u64, Arc<str>>,
    sizes: OnceLock<Option<BytecodeSizes>>,
    /// Frames by thread, innermost first.
    pub by_tid: HashMap<u32, Vec<FrameRecord>>,
    /// Address range of the builtins: the generated code that is part of the program.
    pub builtins: AddrRange,
}

/// The code that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CodeAt {
    /// The Code.
    code: u64,
    /// Address of its first instruction.
    start: u64,
    kind: CodeKind,
}

/// Compiler that made the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CodeKind {
    Interpreter,
    Baseline,
    Maglev,
    Turbofan,
    Other,
}

impl<'p> Stacks<'p> {
    /// Walks the stacks of all isolates.
    pub(in crate::runtimes::v8) fn read(heap: Arc<Heap<'p>>, builtins: AddrRange) -> Stacks<'p> {
        let vm = heap.vm.clone();
        let types = vm.constants.frame_types().map(|(name, number)| (number, Arc::from(name))).collect();
        let mut out = Stacks { heap, types, sizes: OnceLock::new(), by_tid: HashMap::new(), builtins };
        for isolate in &vm.isolates {
            for thread in vm.process.threads() {
                let regs = Regs::of_thread(vm.process.arch(), &thread.registers);
                if isolate.tid.is_some_and(|tid| tid != thread.tid) {
                    continue;
                }
                let frames = out.of_thread(&vm, isolate, &regs);
                if !frames.is_empty() {
                    out.by_tid.insert(thread.tid, frames);
                }
            }
        }
        out
    }

    /// Returns the frames of the thread that runs an isolate.
    fn of_thread(&self, vm: &Vm<'_>, isolate: &Isolate, regs: &Regs) -> Vec<FrameRecord> {
        let Some(stack) = vm.process.space().pieces.at(regs.sp()).map(|piece| piece.range) else { return Vec::new() };
        let stack = AddrRange::new(regs.sp(), stack.end);
        // The thread may run generated code, or a C++ function without a frame of its own that such code called.
        let running = regs.fp().filter(|fp| stack.contains(*fp)).and_then(|fp| {
            let pc = (self.is_generated(vm, regs.ip())).then(|| regs.ip());
            let frames = self.walk(vm, stack, fp, pc);
            frames.first().is_some_and(|frame| frame.activation.is_some() || pc.is_some()).then_some(frames)
        });
        let exits = self.exit_frames(vm, isolate, stack);
        let from_exit = exits.into_iter().map(|fp| self.walk(vm, stack, fp, None));
        let longest = from_exit.max_by_key(Vec::len).unwrap_or_default();
        match running {
            // This walk includes the exit frames above.
            Some(frames) if frames.len() >= longest.len() => frames,
            _ => longest,
        }
    }

    fn is_generated(&self, vm: &Vm<'_>, pc: Addr) -> bool {
        self.builtins.contains(pc) || vm.page_of(pc.get()).is_some()
    }

    /// Returns the exit frames that the isolate's fields lead to.
    fn exit_frames(&self, vm: &Vm<'_>, isolate: &Isolate, stack: AddrRange) -> BTreeSet<Addr> {
        let own = AddrRange::new(isolate.fields().start, isolate.heap);
        let mut out = BTreeSet::new();
        for part in vm.memory.readable_parts(own, own.len()) {
            for word in vm.words(part.start.align_up(8).get(), part.len() / 8) {
                let fp = Addr::new(word);
                let marker = (fp.is_aligned(8) && stack.contains(fp))
                    .then(|| vm.word(fp.wrapping_offset(at::CONTEXT).get()))
                    .flatten();
                let kind = marker.filter(|marker| marker & 1 == 0).and_then(|marker| self.types.get(&(marker >> 1)));
                if kind.is_some_and(|name| name.contains("Exit")) {
                    out.insert(fp);
                }
            }
        }
        out
    }

    /// Walks from a frame pointer to the end of the stack.
    fn walk(&self, vm: &Vm<'_>, stack: AddrRange, first: Addr, pc: Option<Addr>) -> Vec<FrameRecord> {
        let (mut fp, mut pc, mut out) = (first, pc, Vec::new());
        let mut seen = HashSet::new();
        let word = |fp: Addr, offset: i64| vm.word(fp.wrapping_offset(offset).get());
        while stack.contains(fp) && fp.is_aligned(8) && out.len() < limits::MAX_V8_FRAMES && seen.insert(fp) {
            let Some(marker) = word(fp, at::CONTEXT) else { break };
            if marker & 1 == 0 {
                let kind = (marker < MAX_MARKER).then(|| self.types.get(&(marker >> 1))).flatten();
                // Frames of C++ have no type.
                let Some(kind) = kind.cloned() else { break };
                let is_exit = kind.contains("Exit");
                let sp = is_exit.then(|| word(fp, at::FUNCTION)).flatten().map(Addr::new);
                let sp = sp.filter(|sp| sp.is_aligned(8) && *sp > stack.start && *sp < fp);
                if pc.is_none() {
                    pc = sp.and_then(|sp| word(sp, -8)).map(Addr::new);
                }
                let is_entry = kind.ends_with("EntryFrame");
                out.push(FrameRecord { fp, pc, sp, activation: None });
                if is_entry {
                    match word(fp, at::NEXT_EXIT).map(Addr::new).filter(|next| *next > fp) {
                        Some(next) => (fp, pc) = (next, None),
                        None => break,
                    }
                    continue;
                }
            } else {
                let is_context = strong(marker)
                    .and_then(|context| vm.type_of(context))
                    .is_some_and(|number| vm.is_context_type(number));
                let function = word(fp, at::FUNCTION).and_then(strong).filter(|function| vm.is_function(*function));
                let Some(function) = function.filter(|_| is_context) else { break };
                let activation = self.activation(vm, fp, pc, function);
                out.push(FrameRecord { fp, pc, sp: None, activation });
            }
            let (Some(above), Some(back)) = (word(fp, 0), word(fp, at::RETURN)) else { break };
            if above <= fp.get() {
                break;
            }
            (fp, pc) = (Addr::new(above), Some(Addr::new(back)));
        }
        out
    }

    /// Returns the function that runs in a JavaScript frame.
    fn activation(&self, vm: &Vm<'_>, fp: Addr, pc: Option<Addr>, function: u64) -> Option<Activation> {
        let shared = vm.shared(function)?;
        let script = vm.script(shared);
        let file = script.and_then(|script| vm.script_name(script));
        let mut position = None;
        let mut how = None;
        if file.is_some() || script.is_some() {
            let word = |offset: i64| vm.word(fp.wrapping_offset(offset).get());
            let code = pc.and_then(|pc| self.code_of(vm, pc));
            let kind = code.map(|code| code.kind);
            let bytecode = word(at::BYTECODE).and_then(strong).filter(|bytecode| vm.is(*bytecode, "BYTECODE_ARRAY"));
            let is_optimized = matches!(kind, Some(CodeKind::Maglev | CodeKind::Turbofan));
            if let Some(bytecode) = bytecode.filter(|_| !is_optimized) {
                let offset = word(at::OFFSET);
                let offset = match (kind, code) {
                    (Some(CodeKind::Baseline), Some(code)) => pc.and_then(|pc| self.baseline(vm, bytecode, code, pc)),
                    _ => offset.and_then(smi).and_then(|n| n.checked_sub(vm.offsets.bytecodes.cast_signed() - 1)),
                };
                position = offset.map(|offset| (offset, bytecode));
                how = Some(if kind == Some(CodeKind::Baseline) { Execution::Compiled } else { Execution::Interpreted });
            } else if let (Some(code), Some(pc)) = (code, pc) {
                how = Some(Execution::Compiled);
                position = self.optimized(vm, code, pc).zip(bytecode_of(vm, shared));
            } else {
                how = Some(Execution::Compiled);
            }
        }
        let source = script.zip(position).and_then(|(script, (offset, bytecode))| {
            let at = self.position(vm, bytecode, offset)?;
            place(self.heap.line_ends(script)?.as_slice(), at)
        });
        let name = self.name(vm, shared, file.as_deref(), script);
        let is_own = file.as_deref().is_some_and(|file| !file.starts_with("node:") && !file.starts_with("internal/"));
        let module = file.as_deref().map_or_else(String::new, |file| crate::image::file_name(file).to_owned());
        let method = Method {
            name,
            module,
            id: Some(Addr::new(shared)),
            token: None,
            start: Addr::NULL,
            size: 0,
            cold: None,
            role: if is_own { MethodRole::Program } else { MethodRole::Framework },
        };
        let source = Source {
            il_offset: position.map(|(offset, _)| offset),
            file,
            line: source.map(|source| source.line),
            column: source.map(|source| source.column),
        };
        Some(Activation { method: Arc::new(method), position: Position { source, how } })
    }

    /// Returns the name of a function as in V8's stack traces. A function without a name is `(anonymous)`.
    fn name(&self, vm: &Vm<'_>, shared: u64, file: Option<&str>, script: Option<u64>) -> String {
        let name = vm.function_name(shared);
        if !name.is_empty() {
            return name;
        }
        // The function of a whole module begins where its script does.
        let is_module = script.is_some() && file.is_some() && vm.start(shared) == Some(0);
        if is_module { "(module)".to_owned() } else { "(anonymous)".to_owned() }
    }

    /// Returns the source position of a bytecode offset.
    fn position(&self, vm: &Vm<'_>, bytecode: u64, offset: i64) -> Option<u64> {
        let table = vm.object(bytecode, vm.form.positions)?;
        let is_table = vm.is(table, "BYTE_ARRAY") || vm.is(table, "TRUSTED_BYTE_ARRAY");
        let bytes =
            vm.bytes(table.checked_add(16)?, is_table.then(|| vm.field(table, 8).and_then(count)).flatten()?)?;
        positions::at(&positions::entries(&bytes, vm.form.flagged_positions), offset)
    }

    /// Returns the code that contains a return address.
    fn code_of(&self, vm: &Vm<'_>, pc: Addr) -> Option<CodeAt> {
        // A call may be the last instruction of its code, so look up the byte before.
        let stream = self.heap.containing(pc.saturating_sub(1))?;
        let code = match vm.form.code {
            CodeForm::InCode => vm.is(stream, "CODE").then_some(stream)?,
            _ => vm.is(stream, "INSTRUCTION_STREAM").then(|| vm.object(stream, 8)).flatten()?,
        };
        let start = match vm.form.code {
            CodeForm::InCode => stream.checked_add(vm.form.instruction_start)?,
            _ => {
                let at = vm.constants.field("Code", "instruction_start").unwrap_or(vm.form.instruction_start);
                vm.field(code, at)?
            }
        };
        let flags = vm.half(code.checked_add(vm.constants.field("Code", "flags").unwrap_or(vm.form.code_flags))?)?;
        let kind = u64::from(flags & 15);
        let is = |name: &str| vm.constants.get(name).is_some_and(|n| u64::try_from(n) == Ok(kind));
        let baseline = vm.constants.get("CodeKindBaseline").and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX);
        let kind = match kind {
            _ if is("CodeKindInterpretedFunction") => CodeKind::Interpreter,
            _ if kind == baseline => CodeKind::Baseline,
            _ if kind == vm.form.turbofan => CodeKind::Turbofan,
            _ if kind == baseline.saturating_add(1) => CodeKind::Maglev,
            _ => CodeKind::Other,
        };
        Some(CodeAt { code, start, kind })
    }

    fn baseline(&self, vm: &Vm<'_>, bytecode: u64, code: CodeAt, pc: Addr) -> Option<i64> {
        let sizes = self.sizes.get_or_init(|| BytecodeSizes::find(vm)).as_ref()?;
        let table = vm.object(code.code, vm.form.code_data + 8)?;
        let is_table = vm.is(table, "BYTE_ARRAY") || vm.is(table, "TRUSTED_BYTE_ARRAY");
        let table = vm.bytes(table + 16, is_table.then(|| vm.field(table, 8).and_then(count)).flatten()?)?;
        let len = vm.field(bytecode, 8).and_then(count)?;
        let bytes = vm.bytes(bytecode.checked_add(vm.offsets.bytecodes)?, len)?;
        sizes.offset(&table, &bytes, pc.since(Addr::new(code.start)))
    }

    /// Returns the bytecode offset at a return address in optimized code. `None` if the code inlined functions: the
    /// offset may be one of theirs, and its function is not read.
    fn optimized(&self, vm: &Vm<'_>, code: CodeAt, pc: Addr) -> Option<i64> {
        let data = vm.object(code.code, vm.form.code_data)?;
        let length = vm.field(data, 8).and_then(count).filter(|n| *n < 1 << 24)?;
        let words = vm.words(data.checked_add(16)?, length);
        let inlined = vm.constants.get("DeoptimizationDataInlinedFunctionCountIndex").unwrap_or(1);
        let inlined = usize::try_from(inlined).ok().and_then(|i| words.get(i)).and_then(|word| count(*word))?;
        if inlined > 0 && inlined < MAX_INLINED {
            return None;
        }
        let wanted = i64::try_from(pc.since(Addr::new(code.start))).ok()?;
        let entries = words.get(usize::try_from(vm.form.deoptimizations).ok()?..)?;
        let found =
            entries.as_chunks::<3>().0.iter().find(|entry| entry.get(2).and_then(|w| smi(*w)) == Some(wanted))?;
        found.first().and_then(|word| smi(*word))
    }
}

/// Returns the bytecode of a function, also if its code has been compiled.
fn bytecode_of(vm: &Vm<'_>, shared: u64) -> Option<u64> {
    FUNCTION_DATA.iter().find_map(|offset| {
        let mut at = vm.field(shared, *offset).and_then(reference)?;
        for _ in 0..3 {
            match vm.types.name(vm.type_of(at)?)? {
                "BYTECODE_ARRAY" => return Some(at),
                // Baseline code refers to its bytecode.
                "CODE" => at = vm.object(at, vm.form.code_data)?,
                "INTERPRETER_DATA" => at = vm.object(at, 8)?,
                _ => return None,
            }
        }
        None
    })
}

/// Finds the builtins, the generated code that is part of the program. An isolate has a table of their addresses: the
/// longest run of addresses in executable memory. The builtins are in the program, or in a copy of it in the code
/// range.
pub(in crate::runtimes::v8) fn builtins(vm: &Vm<'_>) -> AddrRange {
    /// Minimum number of builtins. V8 10 to 14 have 1,500 to 2,600.
    const ENOUGH: usize = 500;
    /// Maximum size of the last builtin in bytes.
    const LAST: u64 = 64 << 10;
    let Some(isolate) = vm.isolates.first() else { return AddrRange::default() };
    let own = isolate.fields();
    let files = &vm.process.space().files;
    // gdb leaves out file pages that were not modified. Then only NT_FILE lists the copy, without its access rights.
    let is_copy = |entry: &BaseEntry| {
        let file = entry.file.and_then(|file| files.get(file as usize));
        file.is_some_and(|file| *file.path == *vm.path)
    };
    let executable = |word: u64| {
        let at = Addr::new(word);
        let entry = vm.process.base().entries.at(at).filter(|_| at.is_aligned(4) && vm.page_of(word).is_none());
        entry.is_some_and(|entry| entry.perms.map_or_else(|| is_copy(entry), |perms| perms.exec))
    };
    let mut best: Vec<u64> = Vec::new();
    for part in vm.memory.readable_parts(own, own.len()) {
        let words = vm.words(part.start.align_up(8).get(), part.len() / 8);
        let longest = words.split(|word| !executable(*word)).max_by_key(|run| run.len()).unwrap_or_default();
        if longest.len() > best.len() {
            best = longest.to_vec();
        }
    }
    match (best.iter().min(), best.iter().max()) {
        (Some(low), Some(high)) if best.len() >= ENOUGH => {
            AddrRange::new(Addr::new(*low), Addr::new(*high).saturating_add(LAST))
        }
        _ => AddrRange::default(),
    }
}
