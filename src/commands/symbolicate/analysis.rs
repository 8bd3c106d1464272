use std::io::{BufRead, Write};

use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::commands::symbolicate::report::{SymbolicateReport, TextFrameRow};
use crate::managed::CodeStub;
use crate::session::Session;
use crate::symbolicate::{self, Kind, Mapping, Namer, Options, Resolved, Summary, SymbolicateError};

/// Give names to the addresses in the text of a tracing tool: in place, or as
/// folded stacks.
///
/// # Errors
/// Those of reading and writing, and where there is nothing to fold.
pub fn symbolicate(
    session: &Session<'_>,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    fold: bool,
    options: &Options,
) -> Result<SymbolicateReport, SymbolicateError> {
    let names = &Names::new(session);
    let mut mappings: Vec<Mapping> = symbolicate::mappings(session.process.facts(), session.process.base());
    mappings.extend(code_mappings(session));
    let summary = if fold {
        symbolicate::fold(input, output, names, &mappings, options)
    } else {
        symbolicate::rewrite(input, output, names, &mappings, options)
    };
    names.note_missing();
    Ok(report(summary?))
}

/// The mappings of files for code that NT_FILE does not list, as the runtimes know them.
fn code_mappings(session: &Session<'_>) -> Vec<Mapping> {
    let base = session.process.base();
    let mut out = Vec::new();
    for file in session.runtimes().iter().flat_map(|runtime| runtime.code().files()) {
        for entry in base.entries.overlapping(file.range).filter(|e| e.file.is_none()) {
            let Some(range) = entry.range.intersect(&file.range) else { continue };
            out.push(Mapping {
                range,
                file_offset: file.offset.saturating_add(range.start.since(file.range.start)),
                path: file.path.clone(),
                executable: entry.perms.map(|p| p.exec),
            });
        }
    }
    out
}

fn report(summary: Summary) -> SymbolicateReport {
    SymbolicateReport {
        format: summary.format,
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
                kind: f.kind,
                module: f.module,
                count: f.count,
                note: f.note,
            })
            .collect(),
    }
}

impl Namer for Names<'_, '_> {
    fn name(&self, ip: Addr) -> Option<Resolved> {
        match self.code(ip) {
            Code::Managed(_, method) => Some(Resolved {
                symbol: method.name.clone(),
                offset: method.offset_of(ip),
                kind: Kind::Managed,
                module: Some(method.module.clone()),
            }),
            Code::Stub(CodeStub { kind, start, of: Some(method), .. }) => Some(Resolved {
                symbol: format!("[{kind}] {method}"),
                offset: Some(ip.since(start)),
                kind: Kind::Managed,
                module: None,
            }),
            Code::Native(symbol) => Some(Resolved {
                symbol: symbol.name.to_string(),
                offset: Some(symbol.offset),
                kind: Kind::Native,
                module: Some(self.native_module(&symbol).to_owned()),
            }),
            Code::Stub(_) | Code::Other(_) | Code::None => None,
        }
    }
}
