use std::io::{BufRead, Write};

use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::dotnet::executable_memory;
use crate::map::Base;
use crate::process::Process;
use crate::report::{SymbolicateReport, TextFrameRow};
use crate::symbolicate::{self, Kind, Mapping, Namer, Options, Resolved, Summary, SymbolicateError};

/// Give names to the addresses in the text of a tracing tool: in place, or as
/// folded stacks.
///
/// # Errors
/// Those of reading and writing, and where there is nothing to fold.
pub fn symbolicate(
    process: &Process,
    names: &Names<'_>,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    fold: bool,
    options: &Options,
) -> Result<SymbolicateReport, SymbolicateError> {
    let mut mappings: Vec<Mapping> = symbolicate::mappings(process.facts());
    mappings.extend(code_mappings(process, names));
    let summary = if fold {
        symbolicate::fold(input, output, names, &mappings, options)?
    } else {
        symbolicate::rewrite(input, output, names, &mappings, options)?
    };
    Ok(report(summary))
}

/// The mappings of .NET's memfd for code that NT_FILE does not list, as the runtime knows them.
fn code_mappings(process: &Process, names: &Names<'_>) -> Vec<Mapping> {
    let base = Base::of(process.facts());
    let mut out = Vec::new();
    for runtime in names.runtimes().iter().map(|methods| methods.types.runtime) {
        let (Some(found), Some(path)) = (executable_memory(process, runtime), runtime.code_file()) else { continue };
        for block in &found.blocks {
            for entry in base.entries.overlapping(block.range).filter(|e| e.file.is_none()) {
                let Some(range) = entry.range.intersect(&block.range) else { continue };
                out.push(Mapping {
                    range,
                    file_offset: block.offset.saturating_add(range.start.since(block.range.start)),
                    path: path.to_owned(),
                    executable: entry.perms.map(|p| p.exec),
                });
            }
        }
    }
    out
}

fn report(summary: Summary) -> SymbolicateReport {
    SymbolicateReport {
        format: summary.format.name(),
        lines: summary.lines,
        addresses: summary.addresses,
        named: summary.named,
        unlisted: summary.unlisted,
        frames: summary
            .frames
            .into_iter()
            .map(|f| TextFrameRow {
                address: Addr::new(f.printed),
                dso: f.dso,
                resolved: f.resolved,
                symbol: f.symbol,
                kind: f.kind.name(),
                module: f.module,
                count: f.count,
                note: f.note,
            })
            .collect(),
    }
}

impl Namer for Names<'_> {
    fn name(&self, ip: Addr) -> Option<Resolved> {
        match self.code(ip) {
            Code::Managed(_, method) => Some(Resolved {
                symbol: method.name.clone(),
                offset: method.offset_of(ip),
                kind: Kind::Managed,
                module: Some(method.module.name().into_owned()),
            }),
            Code::Stub(stub, Some(method)) => Some(Resolved {
                symbol: format!("[{}] {method}", stub.kind.name()),
                offset: Some(ip.since(stub.start)),
                kind: Kind::Managed,
                module: None,
            }),
            Code::Native(symbol) => Some(Resolved {
                symbol: symbol.name.to_string(),
                offset: Some(symbol.offset),
                kind: Kind::Native,
                module: Some(self.native_module(&symbol).to_owned()),
            }),
            Code::Stub(_, None) | Code::Other(_) | Code::None => None,
        }
    }
}
