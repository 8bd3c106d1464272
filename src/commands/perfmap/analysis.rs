use crate::analysis::naming::Names;
use crate::commands::perfmap::report::{PerfMapReport, PerfMapRow};
use crate::limits;
use crate::report::CodePart;
use crate::runtimes::api::CodeEntryKind;
use crate::session::Session;

/// Lists all code that the runtimes of the process compiled or loaded, by address.
pub fn perfmap(session: &Session<'_>) -> PerfMapReport {
    let names = Names::new(session);
    let mut entries = Vec::new();
    let mut room = limits::MAX_METHOD_NAMES;
    for code in names.runtimes() {
        let says_tier = code.tier_in_perf_map();
        code.each(&mut |found| {
            let (start, size) = (found.start, found.size);
            let (name, tier, cold) = match found.kind {
                CodeEntryKind::Method { name, tier, cold } => (name, tier, cold),
                CodeEntryKind::Stubs(kind) => {
                    let name = format!("stub<{kind}>");
                    entries.push(PerfMapRow {
                        start,
                        size,
                        name,
                        part: Some(CodePart::Stubs),
                        ..PerfMapRow::default()
                    });
                    return true;
                }
                CodeEntryKind::Stub(name) => {
                    let (name, part) = (one_line(name), Some(CodePart::Stubs));
                    entries.push(PerfMapRow { start, size, name, part, ..PerfMapRow::default() });
                    return true;
                }
            };
            let Some(rest) = room.checked_sub(name.len()) else {
                names.partial(format!("method names exceed {} bytes: the rest have no name", limits::MAX_METHOD_NAMES));
                return false;
            };
            room = rest;
            let name = one_line(name);
            let cold = cold.map(|(start, size)| PerfMapRow {
                start,
                size,
                name: name.clone(),
                tier,
                part: Some(CodePart::Cold),
                says_tier,
            });
            entries.push(PerfMapRow { start, size, name, tier, part: None, says_tier });
            entries.extend(cold);
            true
        });
    }
    names.note_missing();
    entries.retain(|e| e.size > 0);
    entries.sort_by_key(|e| (e.start, e.size));
    PerfMapReport { entries }
}

/// Escapes line breaks. The format has one line per entry, and names come from the core.
fn one_line(name: &str) -> String {
    crate::bytes::printable(name).into_owned()
}
