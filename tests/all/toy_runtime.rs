//! A runtime that coremap has never heard of, on a core made by hand: what it tells by the
//! interface (`ManagedRuntime`) is enough for the commands that ask any runtime.

use std::io::Cursor;

use coremap::addr::{Addr, AddrRange};
use coremap::commands::holders::HeldTotal;
use coremap::commands::shrink::scrub_plan;
use coremap::commands::{self, HandleOptions, HeapStatOptions, RetainedOptions, ThreadOptions, TriageOptions};
use coremap::export::hprof::heaps;
use coremap::map::{Claim, Claims, Confidence, Kind, Owner};
use coremap::memory::Memory;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::registers::Regs;
use coremap::render::{self, DrawOptions, Render as _};
use coremap::report::{BufferMemory, ChunkSum, FrameRow, FrameRowKind, HolderState, RuntimeRow, ThreadRow};
use coremap::runtimes::api::Space;
use coremap::runtimes::api::anatomy::{Anatomy, ScrubRule, ScrubRules};
use coremap::runtimes::api::fields::{
    Class, Classes, Field, Fields, Frame, ObjectLayout as ClassForm, References, Thread, ValueType,
};
use coremap::runtimes::api::{
    Activation, Caller, CodeAt, CodeEntry, CodeEntryKind, Execution, FrameAt, FrameKind, Generation, Heap, HeapRange,
    Link, ManagedCode, ManagedFrame, ManagedRuntime, ManagedThread, ManagedThreads, Method, MethodRole, Node, Object,
    ObjectReader, OwnedBuffer, Position, Root, RootKind, Roots, RuntimeId, Source, StackWalk, TypeIndex, TypeInfo,
    UnwalkedRanges, UnwindError, Walker,
};
use coremap::scrub::{Fill, LeftTexts, Level};
use coremap::session::Session;
use coremap::shrink::write_scrubbed;

use crate::support::builder::{CoreBuilder, Load, R, X};
use crate::support::malloc_builder::{Fake, VERSIONS};
use crate::support::{hprof, notes};

const HEAP: u64 = 0x10_0000;
const CODE: u64 = 0x20_0000;
const NATIVE: u64 = 0x30_0000;
const STACK: u64 = 0x7000_0000;
const TID: u32 = 7;

/// Ids of classes in a heap dump.
const CLASSES: u64 = 0x1000;

/// Bytes of a method; each begins at a multiple of them.
const METHOD: u64 = 16;
const METHODS: [&str; 3] = ["Main()", "Work()", "Wait()"];

/// An object is the number of its type, then as many words as a type has fields.
const TYPES: [(&str, &[&str]); 3] = [("Free", &[]), ("Node", &["next", "name"]), ("Text", &["length"])];
const YOUNG: Generation = Generation { number: 0, name: "young", frozen: false };

/// The runtime. Its root is the word at the top of its only thread's stack.
struct Toy<'p> {
    process: &'p Process,
    parts: Vec<HeapRange>,
    space: Space<'p>,
    threads: ManagedThreads,
    /// Whether it tells what runs in frames of `Work()`, and who called them.
    inlines: Option<Caller>,
    buffers: Vec<OwnedBuffer>,
    /// Whether it says what its objects are made of.
    has_anatomy: bool,
    /// Roots that it could not read, and why its collector frees nothing.
    missing: Vec<String>,
    off: Option<&'static str>,
}

impl<'p> Toy<'p> {
    fn new(process: &'p Process) -> Toy<'p> {
        let range = AddrRange::sized(Addr::new(HEAP), 8 * heap().len() as u64);
        let mut threads = ManagedThreads::default();
        let thread = ManagedThread { address: Addr::new(STACK), id: Some(1), marks: Vec::new() };
        threads.by_tid.insert(TID, vec![thread]);
        Toy {
            process,
            parts: vec![HeapRange { heap: 0, generation: YOUNG, range }],
            space: Space::new(process.target(), [range].into_iter(), 16),
            threads,
            inlines: None,
            buffers: Vec::new(),
            has_anatomy: true,
            missing: Vec::new(),
            off: None,
        }
    }

    fn object(&self, at: u64) -> Option<Object> {
        let kind = self.process.memory.u64(Addr::new(at)).ok().filter(|&k| k < TYPES.len() as u64)?;
        let size = 8 + 8 * TYPES[kind as usize].1.len() as u64;
        Some(Object { addr: Addr::new(at), kind: TypeIndex(kind as u32), size })
    }
}

impl Heap for Toy<'_> {
    fn ranges(&self) -> &[HeapRange] {
        &self.parts
    }
    fn generations(&self) -> &[Generation] {
        &[YOUNG]
    }
    fn space(&self) -> &Space<'_> {
        &self.space
    }
    fn types(&self) -> usize {
        TYPES.len()
    }
    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo> {
        let address = Addr::new(u64::from(kind.0));
        Some(TypeInfo { address, free: kind.0 == 0, string: kind.0 == 2, represents_types: false, elements: None })
    }
    fn type_name(&self, kind: TypeIndex) -> String {
        TYPES[kind.0 as usize].0.to_owned()
    }
    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        TYPES[kind.0 as usize].1.get((offset as usize / 8).checked_sub(1)?).map(|&name| name.to_owned())
    }
    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(Eyes(self))
    }
    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(Eyes(self))
    }
}

/// Walks, and looks at single objects.
struct Eyes<'t, 'p>(&'t Toy<'p>);

impl Walker for Eyes<'_, '_> {
    fn walk(&mut self, part: &HeapRange, losses: &mut UnwalkedRanges, visit: &mut dyn FnMut(&Object)) {
        let mut at = part.range.start.get();
        while at < part.range.end.get() {
            let Some(object) = self.0.object(at) else {
                return losses.add(at, part.range.end.get(), || "no object".into());
            };
            visit(&object);
            at += object.size;
        }
    }
}

impl ObjectReader for Eyes<'_, '_> {
    fn node(&mut self, addr: u64) -> Option<Node> {
        let inside = self.0.space.bytes(addr, 8).is_some();
        let object = self.0.object(addr).filter(|_| inside)?;
        Some(Node { kind: object.kind, size: object.size, counted_size: object.size })
    }
    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool) {
        let fields = self.node(addr).filter(|node| node.kind.0 == 1).map_or(0, |_| 2);
        for field in from..fields {
            let offset = 8 + 8 * u64::from(field);
            let value = self.0.process.memory.u64(Addr::new(addr + offset)).unwrap_or(0);
            if value != 0 && !visit(field, Link::Field(offset), value) {
                return;
            }
        }
    }
}

impl ManagedCode for Toy<'_> {
    fn ranges(&self) -> Vec<AddrRange> {
        vec![AddrRange::sized(Addr::new(CODE), METHOD * METHODS.len() as u64)]
    }
    fn code_at(&self, ip: Addr) -> Option<CodeAt> {
        let number = (ip.get().checked_sub(CODE)? / METHOD) as usize;
        let method = Method {
            name: (*METHODS.get(number)?).to_owned(),
            module: "toy".into(),
            id: None,
            token: None,
            start: Addr::new(CODE + METHOD * number as u64),
            size: METHOD,
            cold: None,
            role: MethodRole::Program,
        };
        Some(CodeAt::Method(method.into()))
    }
    /// A frame is nothing but its return address.
    fn unwind(&self, regs: &Regs, _exact: bool) -> Result<Regs, UnwindError> {
        let ip = self.process.memory.ptr(regs.sp());
        let ip = ip.map_err(|fault| UnwindError::Unreadable { ip: regs.ip(), source: fault.into() })?;
        Ok(Regs::new(self.process.arch(), ip, regs.sp().saturating_add(8)))
    }
    /// In `Work()` two methods run that are nowhere else, the older of which is it.
    fn frame(&self, at: &FrameAt<'_>) -> Option<ManagedFrame> {
        let caller = self.inlines.clone()?;
        let Some(CodeAt::Method(method)) = self.code_at(at.regs.ip()).filter(|_| at.tid == TID) else { return None };
        if method.name != "Work()" {
            return None;
        }
        let inner = Method { name: "Inner()".into(), size: 0, ..(*method).clone() };
        let place = |il_offset, how| {
            let source = Source { il_offset: Some(il_offset), file: Some("toy".into()), line: Some(7), column: None };
            Position { source, how: Some(how) }
        };
        let methods = vec![
            Activation { method: inner.into(), position: place(3, Execution::Inlined) },
            Activation { method, position: place(5, Execution::Compiled) },
        ];
        let caller = match caller {
            Caller::Regs(_) => Caller::Regs(Box::new(self.unwind(at.regs, at.exact).ok()?)),
            other => other,
        };
        Some(ManagedFrame { methods, caller })
    }
    fn each(&self, visit: &mut dyn FnMut(CodeEntry<'_>) -> bool) {
        for number in 0..METHODS.len() as u64 {
            if let Some(CodeAt::Method(method)) = self.code_at(Addr::new(CODE + METHOD * number)) {
                let kind = CodeEntryKind::Method { name: &method.name, tier: None, cold: None };
                visit(CodeEntry { kind, start: method.start, size: method.size });
            }
        }
    }
}

impl ManagedRuntime for Toy<'_> {
    fn row(&self) -> RuntimeRow {
        let (version, gc) = (Some("1".into()), Some("toy"));
        let (module, base, layout_source) = ("toy".into(), Addr::new(CODE), "this test".into());
        RuntimeRow { name: "Toy".into(), version, module, base, gc, layout_source }
    }
    fn label(&self) -> String {
        "Toy 1".into()
    }
    fn claim(&self, claims: &mut Claims) {
        let confidence = Confidence::Exact;
        let (owner, detail, evidence) = (Owner::None, "toy heap".into(), "this test says so".into());
        claims.add(Claim { range: self.parts[0].range, kind: Kind::GCHeap, confidence, owner, detail, evidence });
    }
    fn heap(&self) -> Option<&dyn Heap> {
        Some(self)
    }
    fn code(&self) -> &dyn ManagedCode {
        self
    }
    fn threads(&self) -> &ManagedThreads {
        &self.threads
    }
    fn roots(&self, own: RuntimeId, walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots {
        let frames = walk(TID).unwrap().frames;
        assert_eq!(frames.len(), 3);
        assert!(frames.iter().all(|frame| matches!(frame.kind, FrameKind::Managed(id, _) if id == own)));
        let at = Addr::new(STACK + 0xff8);
        let object = self.process.memory.ptr(at).unwrap();
        let all = vec![Root { thread: Some(TID), ..Root::new(RootKind::Stack, at, object) }];
        Roots { all, missing: self.missing.clone(), ..Roots::default() }
    }
    fn collector_off(&self) -> Option<&'static str> {
        self.off
    }
    fn buffers(&self) -> &[OwnedBuffer] {
        &self.buffers
    }
    fn describe(&self, thread: &ManagedThread, row: &mut ThreadRow) {
        (row.managed_id, row.managed_name) = (thread.id, Some("toy worker".into()));
    }
    fn anatomy(&self) -> Option<&dyn Anatomy> {
        self.has_anatomy.then_some(self)
    }
    fn fields(&self) -> Option<&dyn Fields> {
        Some(self)
    }
}

/// What stays of objects: the number of their type, and references. A length is the program's.
impl Anatomy for Toy<'_> {
    fn rules(&self) -> Option<ScrubRules> {
        let form = |kind: u32| {
            let fields = if kind == 1 { vec![(8, 8), (16, 8)] } else { Vec::new() };
            (TypeIndex(kind), ScrubRule { head: 8, fields, is_plain: true, ..ScrubRule::default() })
        };
        Some((0..TYPES.len() as u32).map(form).collect())
    }
}

/// A class for each type, with its fields.
impl Fields for Toy<'_> {
    fn references(&self) -> References<'_> {
        References { size: 8, length_at: 8, decode: Box::new(|word| word) }
    }
    fn classes(&self, present: &[Addr]) -> Classes {
        let class = |&address: &Addr| {
            let (name, fields) = TYPES[address.get() as usize];
            let kind = if name == "Node" { ValueType::Object } else { ValueType::Long };
            let field = |(i, name): (usize, &&str)| Field { name: (*name).to_owned(), kind, offset: 8 + 8 * i as u64 };
            let fields: Vec<Field> = fields.iter().enumerate().map(field).collect();
            Class {
                id: CLASSES + address.get(),
                address,
                name: name.into(),
                superclass: 0,
                loader: 0,
                size: 8 + 8 * fields.len() as u32,
                statics: Vec::new(),
                layout: ClassForm::Instance(fields.iter().map(|field| (field.offset, field.kind)).collect()),
                fields,
                is_root: false,
            }
        };
        Classes::new(present.iter().map(class).collect())
    }
    fn threads(&self, rows: &[ThreadRow], _roots: &[Root]) -> Vec<Thread> {
        let frames = |row: &ThreadRow| row.frames.iter().filter_map(Frame::of).collect();
        rows.iter().map(|row| Thread { tid: Some(row.tid), object: None, frames: frames(row) }).collect()
    }
}

/// Three nodes of a list, of which the second has a name; one that nobody holds; free space.
fn heap() -> Vec<u64> {
    let node = |number: u64| HEAP + 24 * number;
    let nodes = [[1, node(1), 0], [1, node(2), node(4)], [1, 0, 0], [1, node(0), 0]];
    nodes.into_iter().flatten().chain([2, 5, 0, 0]).collect()
}

fn core() -> CoreBuilder {
    core_on(CoreBuilder::x86_64(), &heap())
}

/// Adds the runtime's memory and its thread to a core.
fn core_on(core: CoreBuilder, heap: &[u64]) -> CoreBuilder {
    let bytes = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut stack = vec![0; 512];
    // Wait, called by Work, called by Main, called by nobody.
    (stack[256], stack[257], stack[511]) = (CODE + METHOD + 4, CODE + 4, HEAP);
    let registers = [(16, CODE + 2 * METHOD + 3), (19, STACK + 8 * 256)];
    core.loads([Load::at(HEAP).bytes(bytes(heap)), Load::at(CODE).flags(R | X).bytes(vec![0x90; 48])])
        .load(Load::at(STACK).bytes(bytes(&stack)))
        .note(notes::prstatus_with(TID, &registers))
}

#[test]
fn a_runtime_of_fifty_lines_gets_every_answer() {
    let silent = Progress::silent();
    let file = core().write();
    let process = Process::open(file.path(), &Options::default(), &silent).unwrap();
    let session = Session::with_runtimes(&process, vec![Box::new(Toy::new(&process))]);

    let summary = commands::summary(&session, false, &silent);
    let gc_heap = summary.kinds.iter().find(|k| k.kind == Kind::GCHeap).unwrap();
    assert_eq!(gc_heap.size, 8 * heap().len() as u64);
    assert_eq!(summary.total.size, summary.base.size);
    let head = commands::envelope("summary", &session, summary).core;
    assert_eq!((head.runtimes[0].name.as_str(), head.runtimes[0].gc), ("Toy", Some("toy")));

    let stat = commands::heapstat(&session, &HeapStatOptions::default(), &silent);
    let rows: Vec<_> = stat.types.iter().map(|t| (&*t.name, t.count, t.size)).collect();
    assert_eq!(rows, [("Node", 4, 96), ("Free", 2, 16), ("Text", 1, 16)]);
    assert_eq!((stat.types[0].generations[0].generation, stat.lost.bytes), ("young", 0));

    // The text is held by the second node, which the first holds, which the stack holds.
    let text = Addr::new(HEAP + 96);
    let paths = commands::gcroot(&session, text, false);
    assert_eq!((paths.name.as_deref(), paths.paths.len()), (Some("Text"), 1));
    let path = &paths.paths[0];
    assert_eq!(
        (path.root_kind.as_str(), path.thread, path.root_address),
        ("Stack", Some(TID), Addr::new(STACK + 0xff8))
    );
    let fields: Vec<_> = path.chain.iter().map(|row| row.field.as_deref().unwrap_or("-")).collect();
    assert_eq!(fields, ["next", "name", "-"]);

    let kept = commands::retained(&session, &RetainedOptions { top: 10, ..RetainedOptions::default() });
    assert_eq!((kept.live.objects, kept.live.size), (4, 88));
    assert_eq!((kept.unreachable.objects, kept.unreachable.size), (1, 24));
    assert_eq!((kept.objects[0].object, kept.objects[0].retained), (Addr::new(HEAP), Some(88)));

    let threads = commands::threads(&session, ThreadOptions::default()).threads;
    let names: Vec<_> = threads[0].frames.iter().map(|f| (f.kind, f.method.as_deref().unwrap_or("-"))).collect();
    assert_eq!(names, ["Wait()", "Work()", "Main()"].map(|name| (FrameRowKind::Managed, name)));
    assert_eq!((threads[0].managed_id, threads[0].managed_name.as_deref()), (Some(1), Some("toy worker")));

    let ips = commands::ip2method(&session, &[Addr::new(CODE + METHOD + 1), Addr::new(STACK)]);
    assert_eq!((ips.results[0].method.as_deref(), ips.results[0].offset), (Some("Work()"), Some(1)));
    assert!(!ips.results[1].found && ips.results[1].reason.as_deref().unwrap().contains("Stack"));
    assert_eq!(commands::perfmap(&session).entries.len(), METHODS.len());
    assert!(process.diag.warnings().is_empty(), "{:?}", process.diag.warnings());
}

#[test]
fn a_frame_may_be_several_methods_and_say_who_called_it() {
    let silent = Progress::silent();
    let file = core().write();
    let process = Process::open(file.path(), &Options::default(), &silent).unwrap();
    let told = |caller: Caller| {
        let toy = Toy { inlines: Some(caller), ..Toy::new(&process) };
        let session = Session::with_runtimes(&process, vec![Box::new(toy)]);
        commands::threads(&session, ThreadOptions::default()).threads.remove(0).frames
    };
    let managed = |frames: &[FrameRow]| {
        let managed = frames.iter().filter(|f| f.kind == FrameRowKind::Managed);
        managed.map(|f| (f.method.as_deref().unwrap().to_owned(), f.bci, f.how)).collect::<Vec<_>>()
    };
    let (wait, main) = (("Wait()".to_owned(), None, None), ("Main()".to_owned(), None, None));
    let inner = ("Inner()".to_owned(), Some(3), Some(Execution::Inlined));
    let work = ("Work()".to_owned(), Some(5), Some(Execution::Compiled));

    let own = Box::new(Regs::new(process.arch(), Addr::NULL, Addr::NULL));
    let frames = told(Caller::Regs(own));
    assert_eq!(managed(&frames), [wait.clone(), inner.clone(), work.clone(), main]);
    assert_eq!((frames[1].sp, frames[1].ip, frames[1].line), (frames[2].sp, frames[2].ip, Some(7)));
    assert!(frames.iter().all(|f| f.runtime.as_deref() == Some("Toy") || f.kind != FrameRowKind::Managed));

    let frames = told(Caller::Unknown);
    assert_eq!(managed(&frames)[..3], [wait, inner, work]);
}

/// Memory outside of the heap that an object owns is told as that object's, whatever the runtime is.
#[test]
fn what_objects_own_outside_of_the_heap_is_told() {
    let silent = Progress::silent();
    let file = core().load(Load::at(NATIVE).bytes(vec![7; 0x2000])).write();
    let process = Process::open(file.path(), &Options::default(), &silent).unwrap();
    let mut toy = Toy::new(&process);
    let (first, nobody) = (Addr::new(HEAP), Addr::new(HEAP + 72));
    let buffer = |start, len, object, how| OwnedBuffer {
        range: AddrRange::sized(Addr::new(start), len),
        object,
        field: "name",
        how,
    };
    toy.buffers = vec![
        buffer(NATIVE, 0x1000, first, BufferMemory::Allocated),
        buffer(NATIVE + 0x1800, 0x100, nobody, BufferMemory::Allocated),
        buffer(NATIVE + 0x1900, 0x80, first, BufferMemory::Mapped),
    ];
    let session = Session::with_runtimes(&process, vec![Box::new(toy)]);

    let asked = [NATIVE + 0x10, NATIVE + 0x1000, NATIVE + 0x1910, HEAP].map(Addr::new);
    let answer = commands::whatis(&session, &asked, 0, &silent);
    let owners = answer.results.iter().map(|row| row.owner.as_ref());
    let owners: Vec<_> = owners
        .map(|o| o.map(|o| (o.address, &*o.name, o.field.as_deref(), o.buffer.as_ref().map(|b| (b.size, b.memory)))))
        .collect();
    let node = |size, memory| Some((first, "Node", Some("name"), Some((size, memory))));
    assert_eq!(owners, [node(0x1000, BufferMemory::Allocated), None, node(0x80, BufferMemory::Mapped), None]);

    let held = commands::holders(&session, None, &silent).buffers;
    let held: Vec<_> = held.iter().map(|row| (&*row.name, row.memory, row.objects, row.bytes)).collect();
    assert_eq!(held, [("Node", BufferMemory::Allocated, 2, 0x1100), ("Node", BufferMemory::Mapped, 1, 0x80)]);

    let found = commands::triage(&session, &TriageOptions::default(), &silent).findings;
    let buffers = found.iter().find(|finding| finding.id == "native-buffers").unwrap();
    assert_eq!(buffers.bytes, Some(0x1100));
    // The fourth node has no root.
    assert!(buffers.text.contains("Retained by: roots (Stack) 4.12 KiB"), "{}", buffers.text);
    assert!(buffers.text.contains("256 B belong to unreachable objects"), "{}", buffers.text);
}

/// Blocks of malloc behind the nodes, and a mapping behind one of them. The list's nodes are live, the last one is not.
#[test]
fn native_memory_is_divided_among_its_holders() {
    let silent = Progress::silent();
    let mut malloc = Fake::new(VERSIONS[3]);
    let used: Vec<u64> = malloc.expected.iter().filter(|c| c.1 == 0x90 && c.2 == "used").map(|c| c.0).collect();
    let block = |i: usize| used[i];
    // A name of a live node leads to 4; another one to the mapping; what follows the third node leads to 4 and 5.
    for (from, to) in [(block(0), block(4)), (block(1), NATIVE), (block(2), block(4)), (block(3), block(6))] {
        malloc.put(from, to);
    }
    malloc.put(block(2) + 8, block(5));
    // The dead node's name leads to a live one's.
    malloc.put(block(3) + 8, block(0));
    let node = |number: u64| HEAP + 24 * number;
    let nodes = [[1, node(1), block(0)], [1, node(2), block(1)], [1, block(2), 0], [1, node(0), block(3)]];
    let words: Vec<u64> = nodes.into_iter().flatten().chain([2, 5, 0, 0]).collect();
    let file = core_on(malloc.core(), &words).load(Load::at(NATIVE).bytes(vec![7; 0x2000])).write();
    let process = Process::open(file.path(), &Options::default(), &silent).unwrap();
    let session = Session::with_runtimes(&process, vec![Box::new(Toy::new(&process))]);
    let answer = commands::holders(&session, None, &silent);
    let rows: Vec<_> = answer
        .holders
        .iter()
        .map(|row| (row.field.as_deref(), row.state, row.malloc.count, row.alone, row.shared, &row.shared_with))
        .collect();
    let sum = |blocks: u64, mapped: u64| HeldTotal {
        malloc: ChunkSum { count: blocks, bytes: 0x90 * blocks },
        mmap: ChunkSum { count: mapped, bytes: 0x2000 * mapped },
    };
    // A node's reference leads to no object: what no root reaches may have been referred to there.
    let (live, unreached) = (Some(HolderState::Live), Some(HolderState::Unreached));
    let expected = [
        (Some("name"), live, 2, sum(1, 1), Some(sum(2, 0)), Some("Node.next".to_owned())),
        (Some("next"), live, 1, sum(2, 0), Some(sum(1, 0)), Some("Node.name".to_owned())),
        (Some("name"), unreached, 1, sum(2, 0), Some(sum(2, 0)), Some("Node.name".to_owned())),
    ];
    assert_eq!(rows.len(), expected.len());
    for (row, expected) in rows.into_iter().zip(expected) {
        assert_eq!((row.0, row.1, row.2, row.3, row.4, row.5.clone()), expected);
    }
    assert_eq!((answer.total.malloc.count, answer.reached), (4, sum(7, 1)));
    let by_state: Vec<_> = answer.by_state.iter().map(|sum| (sum.state, sum.reached)).collect();
    assert_eq!(by_state, [(live, sum(5, 1)), (unreached, sum(2, 0))]);
}

/// What no root reaches is called unreachable, and what a collection would free, only as far as that was checked.
#[test]
fn unreachable_is_a_claim_about_all_roots() {
    let silent = Progress::silent();
    let file = core().load(Load::at(NATIVE).bytes(vec![7; 0x2000])).write();
    let ask = |missing: &[&str], off: Option<&'static str>| {
        let process = Process::open(file.path(), &Options::default(), &silent).unwrap();
        let mut toy = Toy::new(&process);
        toy.missing = missing.iter().map(|&name| name.to_owned()).collect();
        toy.off = off;
        let range = AddrRange::sized(Addr::new(NATIVE), 0x100);
        let nobody = Addr::new(HEAP + 72);
        toy.buffers = vec![OwnedBuffer { range, object: nobody, field: "name", how: BufferMemory::Allocated }];
        let session = Session::with_runtimes(&process, vec![Box::new(toy)]);
        let kept = commands::retained(&session, &RetainedOptions { top: 10, ..RetainedOptions::default() });
        let path = commands::gcroot(&session, nobody, false);
        let findings = commands::triage(&session, &TriageOptions::default(), &silent).findings;
        let buffers = findings.iter().find(|finding| finding.id == "native-buffers").unwrap().text.clone();
        let warnings: Vec<String> = process.diag.warnings().into_iter().map(|w| w.message).collect();
        let mut tables = [Vec::new(), Vec::new()];
        let look = DrawOptions { width: None, color: false, bars: false };
        render::write(&kept.document(), look, &mut tables[0]).unwrap();
        render::write(&path.document(), look, &mut tables[1]).unwrap();
        let tables = tables.map(|table| String::from_utf8(table).unwrap());
        (kept.not_read, path.not_read, buffers, warnings, tables)
    };

    let (kept, path, buffers, warnings, tables) = ask(&[], None);
    assert!(kept.is_empty() && path.is_empty() && warnings.is_empty(), "{warnings:?}");
    assert!(buffers.contains("256 B belong to unreachable objects: a collection would free them"), "{buffers}");
    assert!(tables[0].contains("1 unreachable") && tables[1].contains("not reachable from any"), "{tables:?}");

    let (kept, path, buffers, warnings, tables) = ask(&["toy handles"], None);
    assert_eq!((kept, path), (vec!["toy handles".to_owned()], vec!["toy handles".to_owned()]));
    assert!(buffers.contains("not reached") && buffers.contains("toy handles"), "{buffers}");
    assert!(warnings.iter().any(|warning| warning.contains("not read: toy handles")), "{warnings:?}");
    for text in tables.iter().chain([&buffers]) {
        assert!(text.contains("toy handles"), "{text}");
        assert!(
            !text.contains("nreachable") && !text.contains("not reachable") && !text.contains("would free"),
            "{text}"
        );
    }

    let (_, _, buffers, warnings, _) = ask(&[], Some("the toy collector is off"));
    assert!(buffers.contains("unreachable objects, but the toy collector is off"), "{buffers}");
    assert!(!buffers.contains("would free") && warnings.is_empty(), "{buffers} {warnings:?}");
}

/// A command that does not read a runtime says so, instead of listing nothing.
#[test]
fn commands_name_the_runtimes_that_they_do_not_read() {
    let silent = Progress::silent();
    let file = core().write();
    let process = Process::open(file.path(), &Options::default(), &silent).unwrap();
    let session = Session::with_runtimes(&process, vec![Box::new(Toy::new(&process))]);
    let toy = ["Toy 1"];
    assert_eq!(commands::exceptions(&session).unread, toy);
    assert_eq!(commands::finalizers(&session).unread, toy);
    assert_eq!(commands::syncblocks(&session).unread, toy);
    assert_eq!(commands::handles(&session, &HandleOptions::default()).unread, toy);
    assert_eq!(commands::heap(&session, false).unread, toy);
}

/// Scrub the toy's core; the words of its heap afterwards, and the codes of warnings.
fn scrubbed(has_anatomy: bool) -> (Vec<u64>, Vec<&'static str>) {
    let silent = Progress::silent();
    let file = core().write();
    let options = Options { record_bytes: true, ..Options::default() };
    let process = Process::open(file.path(), &options, &silent).unwrap();
    let toy = Toy { has_anatomy, ..Toy::new(&process) };
    let session = Session::with_runtimes(&process, vec![Box::new(toy)]);
    let plan = scrub_plan(&session, Fill::ByLength, Level::Values, &silent);
    let mut out = tempfile::NamedTempFile::new().unwrap();
    write_scrubbed(&process, None, &plan, LeftTexts::default(), out.as_file_mut()).unwrap();
    let after = Process::open(out.path(), &Options::default(), &silent).unwrap();
    let words = (0..heap().len() as u64).map(|i| after.memory.u64(Addr::new(HEAP + 8 * i)).unwrap());
    let codes = process.diag.warnings().iter().map(|warning| warning.code.name()).collect();
    (words.collect(), codes)
}

#[test]
fn what_its_anatomy_names_stays_in_a_scrubbed_core() {
    let (words, codes) = scrubbed(true);
    let text = 12;
    for (i, (was, is)) in heap().into_iter().zip(words).enumerate() {
        // The length of the text is all that is the program's.
        assert_eq!(was == is, i != text + 1, "word {i}: {was:#x} became {is:#x}");
    }
    assert!(codes.is_empty(), "{codes:?}");
    let (words, codes) = scrubbed(false);
    assert_ne!(words[text], 2, "nobody says that a type is structure");
    assert_eq!(codes, ["scrub-unknown"]);
}

#[test]
fn its_classes_and_fields_are_in_a_heap_dump() {
    let silent = Progress::silent();
    let file = core().write();
    let process = Process::open(file.path(), &Options::default(), &silent).unwrap();
    let session = Session::with_runtimes(&process, vec![Box::new(Toy::new(&process))]);
    let rows = commands::threads(&session, ThreadOptions::default()).threads;
    let taken = heaps(&session);
    let mut out = Cursor::new(Vec::new());
    let roots = session.roots(taken[0].id).all;
    taken[0].write(&process, roots, &rows, &mut out, &silent).unwrap();
    let dump = hprof::read(&out.into_inner());
    assert_eq!(
        dump.counts().into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
        [("Node", 4), ("Text", 1)]
    );
    let (_, first) = dump.instances(dump.class("Node")).find(|(at, _)| *at == HEAP).unwrap();
    assert_eq!((first["next"], first["name"]), (HEAP + 24, 0));
    assert_eq!(dump.threads.values().next().unwrap().frames.len(), 3);
}
