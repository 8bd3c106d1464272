//! Resolves addresses to methods, by code ranges, code blocks, descriptors and names.

mod all;
mod as_code;
mod await_vars;
mod error;
mod gc_slots;
mod il_map;
mod versions;

pub use await_vars::{AwaitVar, VarValue};
pub use gc_slots::{FrameSlots, FrameState};
pub(crate) use il_map::{IlStep, await_at, step_at};

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::image::metadata::Token;
use crate::image::pdb::Line;
use crate::limits;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::range_map::RangeMap;
use crate::registers::Regs;
use crate::runtimes::api::{self, CodeVersion, MethodRole};
use crate::runtimes::coreclr::code::{
    self, CodeBlock, CodeHeap, CodeRange, CodeRangeKind, ReadyToRun, ReadyToRunMethod, Stub, UnwindEntry, UnwindError,
};
use crate::runtimes::coreclr::types::{MethodDesc, ModuleInfo, TypeSystem};

use error::CodeError;
use versions::{READY_TO_RUN, Versions};

/// Code of a method, in one of its versions.
#[derive(Debug)]
pub struct Method<'p> {
    /// Name as SOS prints it.
    pub name: String,
    /// Method descriptor. `None` if the runtime has not prepared the method.
    pub desc: Option<MethodDesc>,
    /// MethodDef token. Row 0 if it has none.
    pub token: Token,
    /// Module of the method.
    pub module: Arc<ModuleInfo<'p>>,
    /// Start of this code.
    pub start: Addr,
    /// Bytes of this code, including funclets.
    pub size: u64,
    /// Start and size in bytes of a separate cold part.
    pub cold: Option<(Addr, u64)>,
    /// Whether the code is from the JIT, not from crossgen.
    pub jitted: bool,
    debug: Debug,
    facts: OnceLock<Arc<api::Method>>,
}

/// Location of a method's debug info.
#[derive(Clone, Copy, Debug)]
enum Debug {
    /// An address; 0 if there is none.
    At(Addr),
    /// In the image of this module, by index of runtime function.
    Image(Addr, u32),
}

impl Method<'_> {
    /// Facts about the method that all runtimes share.
    pub fn facts(&self) -> &Arc<api::Method> {
        self.facts.get_or_init(|| {
            let module = self.module.name();
            Arc::new(api::Method {
                role: role(&self.name, &module),
                name: self.name.clone(),
                module: module.into_owned(),
                id: self.desc.as_ref().map(|d| d.addr),
                token: Some(self.token.to_string()),
                start: self.start,
                size: self.size,
                cold: self.cold,
            })
        })
    }
}

/// AsyncMethodData.Flags (method.hpp): the async calling convention alone; a thunk between the two forms of a method.
const ASYNC_CALL: u32 = 1;
const ASYNC_THUNK: u32 = 0x10;

/// Whether the flags of AsyncMethodData are those of a thunk or of a helper.
fn is_helper(flags: u32) -> bool {
    flags & ASYNC_THUNK != 0 || flags == ASYNC_CALL
}

/// Prefixes of the names of framework modules.
const FRAMEWORK: [&str; 4] = ["System.", "Microsoft.", "mscorlib", "netstandard"];

/// Prefix of the methods that the runtime generates for calls of native functions.
const IL_STUB: &str = "ILStubClass.";

/// Prefixes of the methods with which managed threads start.
const THREAD_STARTS: [&str; 3] =
    ["System.Threading.Thread.Start", "System.Threading.Thread+StartHelper.", "System.Threading.ThreadHelper."];

/// Prefix of the methods that find handlers of an exception (.NET 9 on).
const DISPATCHER: &str = "System.Runtime.EH.";

/// Role of a method, from its name and its module's name.
fn role(name: &str, module: &str) -> MethodRole {
    match name {
        _ if name.starts_with(IL_STUB) => MethodRole::NativeCall,
        _ if name.starts_with(DISPATCHER) => MethodRole::Dispatcher,
        _ if THREAD_STARTS.iter().any(|start| name.starts_with(start)) => MethodRole::ThreadStart,
        _ if FRAMEWORK.iter().any(|start| module.starts_with(start)) => MethodRole::Framework,
        _ => MethodRole::Program,
    }
}

/// Meaning of an address in a code range.
pub enum CodeAt<'p> {
    /// A method's code.
    Method(Arc<Method<'p>>),
    /// A stub, and the name of its method.
    Stub(Stub, Option<String>),
    /// A block of stubs among jitted code (StubCodeBlockKind).
    StubBlock(u64),
    /// In no method: padding, data, or not in the core. The text says which.
    Nothing(String),
}

/// Looks up methods by address in the code of one runtime.
pub struct Methods<'p> {
    /// Type system of the runtime.
    pub types: Arc<TypeSystem<'p>>,
    ranges: RangeMap<CodeRange>,
    heaps: Cache<Addr, Result<CodeHeap, CodeError>>,
    images: Cache<Addr, Result<ReadyToRun, CodeError>>,
    methods: Cache<Addr, Result<Arc<Method<'p>>, CodeError>>,
    versions: OnceLock<Versions>,
    /// Remaining number of blocks over all heaps, and of functions over all images.
    room: Mutex<(usize, usize)>,
    /// Amount of GC info read so far.
    gc_work: AtomicU64,
}

/// Values that are computed once and stored.
struct Cache<K, V>(Mutex<HashMap<K, Arc<V>>>);

impl<K: Eq + Hash, V> Cache<K, V> {
    fn get(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        if let Some(found) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return found.clone();
        }
        let made = Arc::new(make());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(made).clone()
    }
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Cache<K, V> {
        Cache(Mutex::default())
    }
}

impl<'p> Methods<'p> {
    /// Reads the code ranges of the runtime. Failures become warnings.
    pub fn new(types: Arc<TypeSystem<'p>>) -> Methods<'p> {
        let (process, runtime) = (types.process, &*types.runtime);
        let _phase = process.enter(Phase::Code);
        let (ranges, notes) = code::read_ranges(&process.memory, runtime);
        for note in notes {
            process.diag.partial(WarningCode::Dotnet, format!("{}: code: {note}", runtime.name()));
        }
        Methods {
            types,
            ranges,
            heaps: Cache::default(),
            images: Cache::default(),
            methods: Cache::default(),
            versions: OnceLock::new(),
            room: Mutex::new((limits::MAX_CODE_BLOCKS, limits::MAX_IMAGE_FUNCTIONS)),
            gc_work: AtomicU64::new(0),
        }
    }

    fn memory(&self) -> &'p dyn Memory {
        self.types.memory
    }

    /// The runtime's code ranges.
    pub fn ranges(&self) -> &RangeMap<CodeRange> {
        &self.ranges
    }

    /// Resolves `ip`. `None` if it is in no code range of the runtime.
    pub fn at(&self, ip: Addr) -> Option<CodeAt<'p>> {
        let range = self.ranges.at(ip)?;
        Some(match range.kind {
            CodeRangeKind::Heap(node) => self.in_heap(range, node, ip),
            CodeRangeKind::ReadyToRun(module) => match &*self.image(range, module) {
                Err(e) => CodeAt::Nothing(e.to_string()),
                Ok(image) => match image.method(ip) {
                    Some(found) => {
                        let at = found.start;
                        self.known(at, || self.precompiled(module, found)?.ok_or(CodeError::Unused { at }))
                    }
                    None => CodeAt::Nothing("in a precompiled image, but in none of its methods".into()),
                },
            },
            CodeRangeKind::Stubs(_) | CodeRangeKind::Other => {
                match code::decode_stub(self.memory(), self.types.runtime.arch, ip) {
                    Some(stub) => CodeAt::Stub(stub, self.stub_method(&stub)),
                    None => CodeAt::Nothing("in a range of stubs".into()),
                }
            }
        })
    }

    /// Returns the registers of the caller of a managed frame. `exact`: the instruction pointer is where the thread was
    /// interrupted, not a return address.
    ///
    /// # Errors
    /// If unwind data or stack can't be read.
    pub fn unwind(&self, regs: &Regs, exact: bool) -> Result<Regs, CodeError> {
        self.with_unwind_entry(regs, exact, |memory, entry| code::unwind(memory, entry, regs, exact))
    }

    /// Returns the stack pointer of the caller of a managed frame after a call, without use of the frame pointer.
    /// `None` if it can't be read.
    pub(super) fn caller_sp_from_sp(&self, regs: &Regs) -> Option<Addr> {
        let unwound = self.with_unwind_entry(regs, false, |memory, entry| {
            code::unwind_from_sp(memory, entry, regs).unwrap_or_else(|| code::unwind(memory, entry, regs, false))
        });
        unwound.ok().map(|up| up.sp())
    }

    /// Calls `unwind` with the unwind data of a managed frame.
    fn with_unwind_entry(
        &self,
        regs: &Regs,
        exact: bool,
        unwind: impl FnOnce(&dyn Memory, &UnwindEntry) -> Result<Regs, UnwindError>,
    ) -> Result<Regs, CodeError> {
        let ip = regs.ip();
        // A call that never returns may be the last instruction of a function.
        let at = if exact { ip } else { ip.saturating_sub(1) };
        let missing = || CodeError::NoUnwindData { at: ip };
        let range = self.ranges.at(at).ok_or_else(missing)?;
        let pristine = self.types.process.memory.pristine();
        let (memory, entry): (&dyn Memory, _) = match range.kind {
            CodeRangeKind::Heap(node) => {
                let heap = self.heap(range, node);
                let heap = heap.as_ref().as_ref().map_err(CodeError::clone)?;
                let start = heap.start_of(at).ok_or_else(missing)?;
                match heap.block(self.memory(), &self.types.runtime, start) {
                    Ok(CodeBlock::Method { unwind, .. }) => {
                        (self.memory(), heap.unwind_entry(self.memory(), &self.types.runtime, unwind, at))
                    }
                    Ok(CodeBlock::Stubs { .. }) => return Err(missing()),
                    Err(e) => return Err(e.into()),
                }
            }
            CodeRangeKind::ReadyToRun(module) => {
                let image = self.image(range, module);
                (&pristine, image.as_ref().as_ref().map_err(CodeError::clone)?.unwind_entry(at))
            }
            _ => return Err(missing()),
        };
        unwind(memory, &entry.ok_or_else(missing)?).map_err(|source| CodeError::Unwind { at: ip, source })
    }

    fn known(&self, start: Addr, make: impl FnOnce() -> Result<Method<'p>, CodeError>) -> CodeAt<'p> {
        match &*self.methods.get(start, || make().map(Arc::new)) {
            Ok(method) => CodeAt::Method(method.clone()),
            Err(e) => CodeAt::Nothing(e.to_string()),
        }
    }

    fn heap(&self, range: &CodeRange, node: Addr) -> Arc<Result<CodeHeap, CodeError>> {
        self.heaps.get(node, || {
            let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
            if room.0 == 0 {
                return Err(CodeError::TooMuchJitted { at: node });
            }
            let runtime = &self.types.runtime;
            let heap = CodeHeap::read(self.memory(), runtime, range, node, &mut room.0)?;
            if !runtime.own_table && !heap.has_methods(self.memory(), runtime) {
                return Err(CodeError::Form { at: node });
            }
            Ok(heap)
        })
    }

    fn image(&self, range: &CodeRange, module: Addr) -> Arc<Result<ReadyToRun, CodeError>> {
        self.images.get(module, || {
            let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
            if room.1 == 0 {
                return Err(CodeError::TooMuchPrecompiled { at: module });
            }
            let pristine = self.types.process.memory.pristine();
            let image = ReadyToRun::read(&pristine, &self.types.runtime, module, range.begin);
            room.1 = room.1.saturating_sub(image.as_ref().map_or(0, ReadyToRun::weight));
            Ok(image?)
        })
    }

    fn in_heap(&self, range: &CodeRange, node: Addr, ip: Addr) -> CodeAt<'p> {
        let heap = self.heap(range, node);
        let heap = match &*heap {
            Ok(heap) => heap,
            Err(e) => return CodeAt::Nothing(e.to_string()),
        };
        let Some(start) = heap.start_of(ip) else {
            return CodeAt::Nothing("in a JIT code heap, before its first method or after its last".into());
        };
        match heap.block(self.memory(), &self.types.runtime, start) {
            Err(e) => CodeAt::Nothing(e.to_string()),
            Ok(CodeBlock::Stubs { kind }) => match code::decode_stub(self.memory(), self.types.runtime.arch, ip) {
                Some(stub) => CodeAt::Stub(stub, self.stub_method(&stub)),
                None => CodeAt::StubBlock(kind),
            },
            Ok(CodeBlock::Method { size, .. }) if ip.since(start) >= size => {
                CodeAt::Nothing("in a JIT code heap, between two methods".into())
            }
            Ok(CodeBlock::Method { size, method_desc, debug_info, .. }) => self.known(start, || {
                let desc = self.types.method_desc(method_desc)?;
                let mut method = self.method_of(desc, start, size)?;
                method.debug = Debug::At(debug_info);
                Ok(method)
            }),
        }
    }

    fn method_of(&self, desc: MethodDesc, start: Addr, size: u64) -> Result<Method<'p>, CodeError> {
        let module = self.types.module_of(desc.method_table)?;
        Ok(Method {
            name: self.types.method_name(&desc),
            token: desc.token,
            desc: Some(desc),
            module: self.types.module(module),
            start,
            size,
            cold: None,
            jitted: true,
            debug: Debug::At(Addr::NULL),
            facts: OnceLock::new(),
        })
    }

    /// A method of an image. `None` for an instantiation of a generic method that this process has never prepared: it
    /// cannot have run.
    fn precompiled(&self, module: Addr, found: ReadyToRunMethod) -> Result<Option<Method<'p>>, CodeError> {
        let mut method = match found.method_desc {
            Some(desc) => {
                let desc = self.types.method_desc(desc)?;
                self.method_of(desc, found.start, found.size)?
            }
            None => {
                let Some(token) = found.token else { return Ok(None) };
                let module = self.types.module(module);
                let name = self.types.definition_name(&module, token);
                Method {
                    name: name.unwrap_or_else(|| format!("{}!{token}", module.name())),
                    desc: None,
                    token,
                    module,
                    start: found.start,
                    size: found.size,
                    cold: None,
                    jitted: false,
                    debug: Debug::At(Addr::NULL),
                    facts: OnceLock::new(),
                }
            }
        };
        method.jitted = false;
        method.cold = found.cold;
        method.debug = Debug::Image(module, found.index);
        Ok(Some(method))
    }

    /// Decodes the bytes at `ip` as a stub. For addresses outside of the code ranges, which do not include stubs up to
    /// .NET 7.
    pub fn stub_at(&self, ip: Addr) -> Option<(Stub, Option<String>)> {
        let stub = code::decode_stub(self.memory(), self.types.runtime.arch, ip)?;
        Some((stub, self.stub_method(&stub)))
    }

    /// Name of a stub's method: by its parameter if that is a MethodDesc, otherwise by its target.
    fn stub_method(&self, stub: &Stub) -> Option<String> {
        let of_desc = || {
            let desc = self.types.method_desc(stub.parameter?).ok()?;
            let module = self.types.module_of(desc.method_table).ok()?;
            // Any word could be read as a MethodDesc. Accept only a type whose module has a file or metadata.
            let module = self.types.module(module);
            (module.metadata.is_some() || !module.path.is_empty()).then(|| self.types.method_name(&desc))
        };
        of_desc().or_else(|| match self.ranges.at(stub.target?)?.kind {
            CodeRangeKind::Heap(_) | CodeRangeKind::ReadyToRun(_) => match self.at(stub.target?)? {
                CodeAt::Method(method) => Some(method.name.clone()),
                _ => None,
            },
            _ => None,
        })
    }

    /// All native code versions of a method. They include the code of `method`.
    pub fn versions(&self, method: &Method<'p>) -> Vec<CodeVersion> {
        let Some(desc) = &method.desc else {
            return vec![CodeVersion { code: method.start, tier: READY_TO_RUN, node: Addr::NULL, il_version: 0 }];
        };
        let known = self.versions.get_or_init(|| {
            let (known, notes) = Versions::read(&self.types);
            for note in notes {
                self.types.process.diag.partial(WarningCode::Dotnet, note);
            }
            known
        });
        let precompiled =
            |code: Addr| self.ranges.at(code).is_some_and(|r| matches!(r.kind, CodeRangeKind::ReadyToRun(_)));
        let mut all = self.types.code_versions(desc, known, &precompiled);
        if !all.iter().any(|v| v.code == method.start) {
            let tier = if method.jitted { self.types.default_tier(desc, known) } else { READY_TO_RUN };
            all.insert(0, CodeVersion { code: method.start, tier, node: Addr::NULL, il_version: 0 });
        }
        all
    }

    /// The map from a method's native code to its IL.
    pub fn il_map(&self, method: &Method<'p>) -> Option<Vec<IlStep>> {
        let runtime = &self.types.runtime;
        match method.debug {
            Debug::At(debug_info) => il_map::read(self.memory(), runtime, debug_info, method.jitted),
            Debug::Image(module, index) => {
                let pristine = self.types.process.memory.pristine();
                let range = self.ranges.at(method.start)?;
                let image = self.image(range, module);
                let debug_info = image.as_ref().as_ref().ok()?.debug_info(&pristine, index)?;
                il_map::read(&pristine, runtime, debug_info, false)
            }
        }
    }

    /// Whether a method is between an async method and its caller, and not in the program's source: a thunk, or a
    /// helper of the library.
    pub fn is_async_helper(&self, method: &Method<'p>) -> bool {
        self.async_flags(method).is_some_and(is_helper)
    }

    /// Whether a method was compiled as runtime async, and is not a helper.
    pub fn is_async_body(&self, method: &Method<'p>) -> bool {
        self.async_flags(method).is_some_and(|flags| flags & ASYNC_CALL != 0 && !is_helper(flags))
    }

    fn async_flags(&self, method: &Method<'p>) -> Option<u32> {
        self.types.async_flags(method.desc.as_ref()?)
    }

    /// Source file and line of the await at which a method is suspended, from the code address in its continuation.
    pub fn await_line(&self, method: &Method<'p>, ip: Addr) -> Option<Line> {
        let steps = self.il_map(method)?;
        let step = await_at(&steps, ip.since(method.start))?;
        method.module.line(&self.types, method.token.rid(), step.il)
    }
}
