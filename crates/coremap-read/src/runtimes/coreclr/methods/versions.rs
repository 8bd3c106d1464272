//! The code versions of a method, and their tiers.
//!
//! The default version is in the MethodDesc's native code slot, each other version in a NativeCodeVersionNode. Up to
//! .NET 8 a hash table of the AppDomain has a method's nodes, from .NET 9 on the MethodDesc itself. Sources:
//! docs/design/datacontracts/CodeVersions.md; src/coreclr/vm/codeversion.h.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::layout::ViewError;
use crate::limits;
use crate::memory::walk::{Broken, Walks};
use crate::phase::Phase;
use crate::runtimes::api::CodeVersion;
use crate::runtimes::coreclr::types::{MethodDesc, TypeSystem};

/// Names of OptimizationTier (codeversion.h), and SOS's names for them.
const TIERS: &[(&str, &str)] = &[
    ("Tier0", "QuickJitted"),
    ("Tier1", "OptimizedTier1"),
    ("Tier1OSR", "OptimizedTier1OSR"),
    ("Optimized", "Optimized"),
    ("Tier0Instrumented", "QuickJittedInstrumented"),
    ("Tier1Instrumented", "OptimizedTier1Instrumented"),
];

/// MethodImplAttributes.AggressiveOptimization (corhdr.h, miAggressiveOptimization).
const AGGRESSIVE_OPTIMIZATION: u16 = 0x0200;

/// MethodImplAttributes.NoOptimization (corhdr.h, miNoOptimization).
const NO_OPTIMIZATION: u16 = 0x0040;

/// Name of the tier of precompiled code.
pub(super) const READY_TO_RUN: &str = "ReadyToRun";

/// First node by MethodDesc, from a table of the AppDomain.
type VersionTable = HashMap<Addr, Addr>;

/// Facts about versions that are not in the MethodDesc.
#[derive(Debug)]
pub(super) struct Versions {
    /// First node by MethodDesc (up to .NET 8).
    nodes: VersionTable,
    /// Methods whose calls are not counted because they were optimized at once (loops).
    optimized: HashSet<Addr>,
    /// Bounds the walks over all methods' lists of versions.
    walks: Walks,
}

impl Versions {
    /// Reads the tables of versioned methods. Returns them with messages about failures.
    pub(super) fn read(types: &TypeSystem<'_>) -> (Versions, Vec<String>) {
        let mut notes = Vec::new();
        let nodes = table(types).unwrap_or_else(|e| {
            notes.push(format!("code versions: {e}"));
            VersionTable::new()
        });
        let optimized = not_counted(types).unwrap_or_else(|e| {
            notes.push(format!("call counting: {e}"));
            HashSet::new()
        });
        (Versions { nodes, optimized, walks: Walks::new(Phase::Code, limits::MAX_VERSION_STEPS) }, notes)
    }
}

/// StorageKind of a method's default version in a CallCountingInfo (NativeCodeVersion::StorageKind, Synthetic).
const DEFAULT_VERSION: u32 = 2;

/// Methods that are optimized from the start: call counting is disabled for their default version (callcounting.h from
/// .NET 5 on, callcounter.h before).
fn not_counted(types: &TypeSystem<'_>) -> Result<HashSet<Addr>, ViewError> {
    let layout = &types.runtime.layout;
    let mut out = HashSet::new();
    let Ok(domain) = types.runtime.globals.pointer(types.memory, layout, "SystemDomain") else { return Ok(out) };
    let allocator = types.view("SystemDomain", domain).addr_of("GlobalLoaderAllocator")?;
    if let Ok(map) = types.view("LoaderAllocator", allocator).addr_of("MethodToCallCount") {
        let size = layout.size("CallCounterEntry")?;
        for entry in elements(types, map, size)? {
            let view = types.view("CallCounterEntry", entry);
            if view.u32("callCountLimit")? == i32::MAX as u32 {
                out.insert(view.ptr("pMethod")?);
            }
        }
        return Ok(out);
    }
    // No descriptor describes the fields that lead to the manager, and another version's layout may have others.
    if !types.runtime.own_table {
        return Ok(out);
    }
    let Ok(disabled) = layout.constant("CallCountingStage", "Disabled") else { return Ok(out) };
    let manager = types.view("LoaderAllocator", allocator).ptr("CallCountingManager")?;
    // There is none without tiered compilation.
    if manager.is_null() {
        return Ok(out);
    }
    let map = types.view("CallCountingManager", manager).addr_of("CallCountingInfoByCodeVersionHash")?;
    for slot in elements(types, map, 8)? {
        let Ok(info) = types.memory.ptr(slot) else { continue };
        // 1 marks a deleted entry.
        if info.get() <= 1 {
            continue;
        }
        let view = types.view("CallCountingInfo", info);
        if u64::from(view.u8("Stage")?) == disabled && view.u32("StorageKind")? == DEFAULT_VERSION {
            out.insert(view.ptr("MethodDesc")?);
        }
    }
    Ok(out)
}

/// Addresses of the used elements of an SHash. Used elements have a first word that is not 0.
fn elements(types: &TypeSystem<'_>, map: Addr, size: u64) -> Result<Vec<Addr>, ViewError> {
    let view = types.view("SHash", map);
    let (table, count) = (view.ptr("m_table")?, view.u32("m_tableSize")?);
    let size = size.clamp(8, 4096);
    let count = u64::from(count).min(limits::MAX_HASH_BUCKETS).min(limits::MAX_HASH_BYTES / size);
    let fault = ViewError::fault("SHash", "m_table");
    let bytes = types.memory.bytes(table, (count * size) as usize).map_err(fault)?;
    let used = bytes.chunks_exact(size as usize).enumerate().filter(|(_, e)| e.iter().take(8).any(|b| *b != 0));
    Ok(used.map(|(i, _)| table.saturating_add(i as u64 * size)).collect())
}

/// Reads the AppDomain's table of versioned methods, up to .NET 8.
///
/// # Errors
/// If it is not in the core.
fn table(types: &TypeSystem<'_>) -> Result<VersionTable, ViewError> {
    let layout = &types.runtime.layout;
    let mut out = VersionTable::new();
    if layout.field("AppDomain", "MethodDescVersioningStateMap").is_err() {
        return Ok(out);
    }
    let Ok(domain) = types.runtime.globals.pointer(types.memory, layout, "AppDomain") else { return Ok(out) };
    let map = types.view("AppDomain", domain).addr_of("MethodDescVersioningStateMap")?;
    for slot in elements(types, map, 8)? {
        let Ok(entry) = types.memory.ptr(slot) else { continue };
        let state = types.view("MethodDescVersioningState", entry);
        if let (Ok(method), Ok(node)) = (state.ptr("MethodDesc"), state.ptr("NativeCodeVersionNode")) {
            out.insert(method, node);
        }
    }
    Ok(out)
}

impl TypeSystem<'_> {
    /// All native code versions of a method, the default one first.
    ///
    /// `precompiled` returns whether an address is in a ReadyToRun image.
    pub(super) fn code_versions(
        &self,
        desc: &MethodDesc,
        known: &Versions,
        precompiled: &dyn Fn(Addr) -> bool,
    ) -> Vec<CodeVersion> {
        let mut out = Vec::new();
        let slot = self.native_code_slot(desc).and_then(|at| self.memory.ptr(at).ok());
        if let Some(code) = slot.map(|c| c.masked(!1)).filter(|c| !c.is_null()) {
            let tier = if precompiled(code) { READY_TO_RUN } else { self.default_tier(desc, known) };
            out.push(CodeVersion { code, tier, node: Addr::NULL, il_version: 0 });
        }
        let first = self.first_node(desc, &known.nodes);
        let end = known.walks.begin_own_set().at_most(limits::MAX_CODE_VERSIONS).follow(first, |node| {
            let view = self.view("NativeCodeVersionNode", node);
            let (code, next) = (view.ptr("NativeCode")?, view.ptr("Next")?);
            let tier = if !code.is_null() && precompiled(code) {
                READY_TO_RUN
            } else {
                view.u32("OptimizationTier").ok().and_then(|t| self.tier(t)).unwrap_or("Unknown")
            };
            out.push(CodeVersion { code, tier, node, il_version: view.u64("ILVersionId").unwrap_or(0) });
            Ok::<_, ViewError>(next)
        });
        if let Err(Broken::Stop(stop)) = end {
            let why = format!("the list of code versions of the MethodDesc at {} {stop}", desc.addr);
            self.process.diag.partial(WarningCode::Dotnet, why);
        }
        out
    }

    /// Tier of a method's default version.
    pub(super) fn default_tier(&self, desc: &MethodDesc, known: &Versions) -> &'static str {
        let module = self.module_of(desc.method_table).map(|m| self.module(m));
        let info = module.as_ref().ok();
        let flags = info.and_then(|m| Some(m.metadata.as_ref()?.method_def(desc.token.rid())?.impl_flags));
        let asks = |flag: u16| flags.is_some_and(|f| f & flag != 0);
        // Debug builds of modules, and methods that ask for it, are not optimized.
        if info.is_some_and(|m| self.is_unoptimized(m.addr)) || asks(NO_OPTIMIZATION) {
            return "MinOptJitted";
        }
        let aggressive = asks(AGGRESSIVE_OPTIMIZATION);
        if aggressive && self.runtime.layout.constant("Tiers", "AggressiveIsTier1").is_ok() {
            "OptimizedTier1"
        } else if !self.method_flag(desc, "IsEligibleForTieredCompilation") || known.optimized.contains(&desc.addr) {
            "Optimized"
        } else {
            "QuickJitted"
        }
    }

    /// Whether the JIT must not optimize a module's code (DebuggableAttribute, or a debugger).
    fn is_unoptimized(&self, module: Addr) -> bool {
        let allow = self.runtime.layout.constant("ModuleFlags", "DEBUGGER_ALLOW_JIT_OPTS_PRIV");
        let flags = self.view("Module", module).u32("Flags");
        allow.is_ok_and(|allow| flags.is_ok_and(|flags| u64::from(flags) & allow == 0))
    }

    fn first_node(&self, desc: &MethodDesc, table: &VersionTable) -> Addr {
        if let Some(&node) = table.get(&desc.addr) {
            return node;
        }
        let data = self.view("MethodDesc", desc.addr).ptr("CodeData");
        let state = data.and_then(|d| match d {
            Addr::NULL => Ok(d),
            d => self.view("MethodDescCodeData", d).ptr("VersioningState"),
        });
        match state {
            Ok(Addr::NULL) | Err(_) => Addr::NULL,
            Ok(state) => {
                self.view("MethodDescVersioningState", state).ptr("NativeCodeVersionNode").unwrap_or(Addr::NULL)
            }
        }
    }

    fn tier(&self, number: u32) -> Option<&'static str> {
        let layout = &self.runtime.layout;
        TIERS
            .iter()
            .find(|(name, _)| layout.constant("OptimizationTier", name).ok() == Some(u64::from(number)))
            .map(|(_, words)| *words)
    }
}
