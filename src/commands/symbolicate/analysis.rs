use std::io::{BufRead, Write};

use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::commands::symbolicate::report::{SymbolicateReport, TextBlockRow, TextFrameRow};
use crate::report::InlinedRow;
use crate::runtimes::api::{ObjectNames, buffer_at};
use crate::session::Session;
use crate::symbolicate::{self, Inlined, Kind, Mapping, Namer, Options, Resolved, Summary, SymbolicateError};

/// Names the addresses in the output of a tracing tool: in place, or as folded
/// stacks.
///
/// # Errors
/// Fails on errors of reading and writing, and if there is nothing to fold.
pub fn symbolicate(
    session: &Session<'_>,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    fold: bool,
    options: &Options,
) -> Result<SymbolicateReport, SymbolicateError> {
    let names = Names::new(session);
    let namer = &TextNames(&names);
    let mut mappings: Vec<Mapping> = symbolicate::mappings(session.process.facts(), session.process.base());
    mappings.extend(code_mappings(session));
    let summary = if fold {
        symbolicate::fold(input, output, namer, &mappings, options)
    } else {
        symbolicate::rewrite(input, output, namer, &mappings, options)
    };
    names.note_missing();
    Ok(report(summary?))
}

/// Mappings of files with code that NT_FILE does not list but runtimes know.
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
        blocks: summary
            .blocks
            .into_iter()
            .map(|block| TextBlockRow { address: block.address, size: block.size, owner: block.owner })
            .collect(),
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
                line: f.line,
                inlined: f.inlined.into_iter().map(row).collect(),
                note: f.note,
            })
            .collect(),
    }
}

fn row(inlined: Inlined) -> InlinedRow {
    InlinedRow { method: inlined.symbol, line: inlined.line, ..InlinedRow::default() }
}

/// Note for an address in an interpreter.
const ONLY_THE_FRAME: &str =
    "interpreter code: the method is in the stack frame, which a text of addresses does not contain";

/// Names for texts of tracing tools.
struct TextNames<'a, 's, 'p>(&'a Names<'s, 'p>);

impl Namer for TextNames<'_, '_, '_> {
    fn name(&self, ip: Addr) -> Option<Resolved> {
        match self.0.code(ip) {
            Code::Managed(runtime, method) => {
                let inlined = self.0.runtime(runtime).map(|code| code.inlined(&method, ip)).unwrap_or_default();
                // With inlined methods the lines are read anyway. Otherwise
                // they may need a file.
                let line = if inlined.is_empty() { None } else { self.0.source(runtime, &method, ip).line };
                let inlined = inlined.into_iter().map(|i| Inlined { symbol: i.method, line: i.source.line });
                Some(Resolved {
                    symbol: method.name.clone(),
                    offset: method.offset_of(ip),
                    kind: Kind::Managed,
                    module: Some(method.module.clone()),
                    line,
                    inlined: inlined.collect(),
                    note: None,
                })
            }
            Code::Stub(stub) if stub.of.is_some() || stub.name.is_some() => Some(Resolved {
                symbol: match (&stub.name, &stub.of) {
                    (None, Some(method)) => format!("[{}] {method}", stub.kind),
                    _ => stub.title(),
                },
                offset: Some(ip.since(stub.start)),
                kind: Kind::Managed,
                note: stub.runs.map(|_| ONLY_THE_FRAME),
                ..Resolved::default()
            }),
            Code::Native(symbol) => Some(Resolved {
                symbol: symbol.name.to_string(),
                offset: Some(symbol.offset),
                kind: Kind::Native,
                module: Some(self.0.native_module(&symbol).to_owned()),
                ..Resolved::default()
            }),
            Code::Stub(_) | Code::Other(_) | Code::None => None,
        }
    }

    /// Describes the owner of the malloc block at `address`: an object, or the
    /// category that a runtime recorded in the block.
    fn owner(&self, address: Addr) -> Option<String> {
        let session = self.0.session();
        let labels = session.block_labels();
        // A runtime that labels blocks puts its header before the memory that
        // it hands out.
        let starts = [Some(address), labels.map(|labels| address.saturating_add(labels.header()))];
        for runtime in session.runtimes() {
            let Some(heap) = runtime.heap() else { continue };
            let owned = starts.iter().flatten().find_map(|&at| buffer_at(runtime.buffers(), at));
            if let Some((buffer, (name, _))) = owned.and_then(|b| Some((b, ObjectNames::new(heap).object(b.object)?))) {
                return Some(format!("{name} {}", buffer.object));
            }
        }
        let (labels, block) = (labels?, session.blocks().1.at(address)?);
        let label = labels.label(block.range)?;
        Some(format!("{}: {}", labels.whose(), labels.name(label.label)))
    }
}
