use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::InlinedRow;

/// `ip2method`: what code each address is of.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Ip2MethodReport {
    /// One for each address, in the order given.
    pub results: Vec<IpRow>,
}

/// One address.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct IpRow {
    /// The address.
    pub ip: Addr,
    /// Whether it is of a managed method.
    pub found: bool,
    /// The method with its type and parameters, as SOS writes it, or jstack with types of arguments.
    pub method: Option<String>,
    /// Bytes from the start of this code.
    pub offset: Option<u64>,
    /// MethodDesc; HotSpot's Method.
    pub method_desc: Option<Addr>,
    /// EEClass; HotSpot's Klass.
    pub class: Option<Addr>,
    /// MethodTable.
    pub method_table: Option<Addr>,
    /// MethodDef token, `0x06000001`.
    pub token: Option<String>,
    /// File name of the module; name of a Java module.
    pub module: Option<String>,
    /// Its path.
    pub module_path: Option<String>,
    /// Address of the Module.
    pub module_address: Option<Addr>,
    /// Where this code begins.
    pub code_start: Option<Addr>,
    /// Its bytes, funclets included.
    pub code_size: Option<u64>,
    /// Where its cold part begins, if it has one.
    pub cold_start: Option<Addr>,
    /// Bytes of the cold part.
    pub cold_size: Option<u64>,
    /// How this code was compiled, in the runtime's own words: QuickJitted, OptimizedTier1, ReadyToRun, C1 3,
    /// C2 4, native, …
    pub tier: Option<&'static str>,
    /// Whether the JIT compiled it.
    pub jitted: Option<bool>,
    /// Offset in the method's IL or bytecode; negative in IL: -1 no mapping, -2 prolog, -3 epilog.
    pub il_offset: Option<i64>,
    /// Source file.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// Methods that were inlined at the address, the innermost first, the one that `method` called itself last.
    pub inlined: Vec<InlinedRow>,
    /// All native code versions of the method.
    pub versions: Vec<VersionRow>,
    /// Where no method was found: what the address is.
    pub reason: Option<String>,
    /// What would tell more.
    pub note: Option<String>,
}

impl IpRow {
    /// Whether its runtime describes methods as CoreCLR does: by descriptors of types, and tokens of metadata.
    pub(crate) fn has_metadata(&self) -> bool {
        self.token.is_some() || self.method_table.is_some()
    }
}

/// A native code version.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct VersionRow {
    /// Where its code begins; `null` where it has none yet.
    pub code: Option<Addr>,
    /// How it was compiled, in the runtime's own words.
    pub tier: &'static str,
    /// NativeCodeVersionNode; `null` for the default version.
    pub node: Option<Addr>,
    /// Id of the IL version it was compiled from; 0 for the method's own IL.
    pub il_version: u64,
    /// Where that IL is; known for the method's own.
    pub il_address: Option<Addr>,
}
