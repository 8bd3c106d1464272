use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::InlinedRow;

/// `ip2method`: the method or function of each code address.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Ip2MethodReport {
    /// One result per address, in the order given.
    pub results: Vec<IpRow>,
}

/// One address.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct IpRow {
    /// The address.
    pub ip: Addr,
    /// Whether it belongs to a managed method.
    pub found: bool,
    /// Method with its type and parameters, in the form of SOS or of jstack with argument types.
    pub method: Option<String>,
    /// Bytes from the start of the code.
    pub offset: Option<u64>,
    /// Address of the MethodDesc; of the Method for HotSpot.
    pub method_desc: Option<Addr>,
    /// Address of the EEClass; of the Klass for HotSpot.
    pub class: Option<Addr>,
    /// Address of the MethodTable.
    pub method_table: Option<Addr>,
    /// MethodDef token, `0x06000001`.
    pub token: Option<String>,
    /// File name of the module; name of a Java module.
    pub module: Option<String>,
    /// Path of the module.
    pub module_path: Option<String>,
    /// Address of the Module.
    pub module_address: Option<Addr>,
    /// Start of the code.
    pub code_start: Option<Addr>,
    /// Size of the code in bytes, including funclets.
    pub code_size: Option<u64>,
    /// Start of its cold code, if there is any.
    pub cold_start: Option<Addr>,
    /// Size of the cold code in bytes.
    pub cold_size: Option<u64>,
    /// How the code was compiled, as the runtime names it: QuickJitted, OptimizedTier1, ReadyToRun, C1 3, C2 4, native,
    /// …
    pub tier: Option<&'static str>,
    /// Whether the JIT compiled it.
    pub jitted: Option<bool>,
    /// Offset in the method's IL or bytecode. Negative values in IL: -1 no mapping, -2 prolog, -3 epilog.
    pub il_offset: Option<i64>,
    /// Source file.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// Methods inlined at the address, innermost first. `method` called the last one.
    pub inlined: Vec<InlinedRow>,
    /// All native code versions of the method.
    pub versions: Vec<VersionRow>,
    /// If no method was found: what the address is.
    pub reason: Option<String>,
    /// What would improve the result.
    pub note: Option<String>,
}

impl IpRow {
    /// Whether its runtime describes methods as CoreCLR does: by type descriptors and metadata tokens.
    pub(crate) fn has_metadata(&self) -> bool {
        self.token.is_some() || self.method_table.is_some()
    }
}

/// A native code version.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct VersionRow {
    /// Start of its code. `null` if it has none yet.
    pub code: Option<Addr>,
    /// How it was compiled, as the runtime names it.
    pub tier: &'static str,
    /// Address of the NativeCodeVersionNode. `null` for the default version.
    pub node: Option<Addr>,
    /// Id of the IL version that it was compiled from. 0 for the original IL.
    pub il_version: u64,
    /// Address of that IL. Known for the original IL only.
    pub il_address: Option<Addr>,
}
