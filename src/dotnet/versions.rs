//! The code versions of a method, and their tiers.
//!
//! docs/design/datacontracts/CodeVersions.md; src/coreclr/vm/codeversion.h:
//! the default version stands in the MethodDesc's native code slot, each other
//! in a NativeCodeVersionNode. Up to .NET 8 a hash table of the AppDomain leads
//! to a method's nodes, from .NET 9 on the MethodDesc does itself.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::dotnet::types::{MethodDesc, TypeSystem};
use crate::layout::ViewError;
use crate::limits;

/// One native code version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeVersion {
    /// Where its code begins; 0 where it has none yet.
    pub code: Addr,
    /// How it was compiled, in SOS's words.
    pub tier: &'static str,
    /// Its NativeCodeVersionNode; 0 for the default version.
    pub node: Addr,
    /// Id of the IL version that it was compiled from; 0 for the original IL.
    pub il_version: u64,
}

/// Names of OptimizationTier (codeversion.h) and what SOS calls them.
const TIERS: &[(&str, &str)] = &[
    ("Tier0", "QuickJitted"),
    ("Tier1", "OptimizedTier1"),
    ("Tier1OSR", "OptimizedTier1OSR"),
    ("Optimized", "Optimized"),
    ("Tier0Instrumented", "QuickJittedInstrumented"),
    ("Tier1Instrumented", "OptimizedTier1Instrumented"),
];

/// What precompiled code is called.
pub(super) const READY_TO_RUN: &str = "ReadyToRun";

/// MethodDesc to the first node, where a table of the AppDomain keeps them.
pub(super) type VersionTable = HashMap<Addr, Addr>;

/// Read the AppDomain's table of versioned methods, up to .NET 8.
///
/// # Errors
/// Where it is not in the core.
pub(super) fn table(types: &TypeSystem<'_>) -> Result<VersionTable, ViewError> {
    let layout = &types.runtime.layout;
    let mut out = VersionTable::new();
    if layout.field("AppDomain", "MethodDescVersioningStateMap").is_err() {
        return Ok(out);
    }
    let Ok(domain) = types.runtime.roots.pointer(types.memory, layout, "AppDomain") else { return Ok(out) };
    let map = types.view("SHash", types.view("AppDomain", domain).addr_of("MethodDescVersioningStateMap")?);
    let (entries, size) = (map.ptr("m_table")?, map.u32("m_tableSize")?);
    let count = u64::from(size).min(limits::MAX_HASH_BUCKETS) as usize;
    let fault = |fault| ViewError::Fault { kind: "SHash".into(), field: "m_table".into(), fault };
    let bytes = types.memory.bytes(entries, count * 8).map_err(fault)?;
    for word in bytes.as_chunks::<8>().0.iter().map(|w| Addr(u64::from_le_bytes(*w))).filter(|a| a.0 != 0) {
        let state = types.view("MethodDescVersioningState", word);
        if let (Ok(method), Ok(node)) = (state.ptr("MethodDesc"), state.ptr("NativeCodeVersionNode")) {
            out.insert(method, node);
        }
    }
    Ok(out)
}

impl TypeSystem<'_> {
    /// All native code versions of a method, the default one first.
    ///
    /// `precompiled`: whether code at an address is of a ReadyToRun image.
    pub(super) fn code_versions(
        &self,
        desc: &MethodDesc,
        table: &VersionTable,
        precompiled: &dyn Fn(Addr) -> bool,
    ) -> Vec<CodeVersion> {
        let mut out = Vec::new();
        let tiered = self.method_flag(desc, "IsEligibleForTieredCompilation");
        let slot = self.native_code_slot(desc).and_then(|at| self.memory.ptr(at).ok());
        if let Some(code) = slot.map(|c| Addr(c.0 & !1)).filter(|c| c.0 != 0) {
            let tier = match (precompiled(code), tiered) {
                (true, _) => READY_TO_RUN,
                (false, true) => "QuickJitted",
                (false, false) => "Optimized",
            };
            out.push(CodeVersion { code, tier, node: Addr(0), il_version: 0 });
        }
        let mut node = self.first_node(desc, table);
        let mut seen = HashSet::new();
        while node.0 != 0 && seen.insert(node) && seen.len() <= limits::MAX_CODE_VERSIONS {
            let view = self.view("NativeCodeVersionNode", node);
            let (Ok(code), Ok(next)) = (view.ptr("NativeCode"), view.ptr("Next")) else { break };
            let tier = if code.0 != 0 && precompiled(code) {
                READY_TO_RUN
            } else {
                view.u32("OptimizationTier").ok().and_then(|t| self.tier(t)).unwrap_or("Unknown")
            };
            out.push(CodeVersion { code, tier, node, il_version: view.u64("ILVersionId").unwrap_or(0) });
            node = next;
        }
        out
    }

    fn first_node(&self, desc: &MethodDesc, table: &VersionTable) -> Addr {
        if let Some(&node) = table.get(&desc.addr) {
            return node;
        }
        let data = self.view("MethodDesc", desc.addr).ptr("CodeData");
        let state = data.and_then(|d| match d {
            Addr(0) => Ok(d),
            d => self.view("MethodDescCodeData", d).ptr("VersioningState"),
        });
        match state {
            Ok(Addr(0)) | Err(_) => Addr(0),
            Ok(state) => self.view("MethodDescVersioningState", state).ptr("NativeCodeVersionNode").unwrap_or(Addr(0)),
        }
    }

    fn tier(&self, number: u32) -> Option<&'static str> {
        let layout = &self.runtime.layout;
        TIERS
            .iter()
            .find(|(name, _)| layout.positive("constants_OptimizationTier", name).ok() == Some(u64::from(number)))
            .map(|(_, words)| *words)
    }
}
