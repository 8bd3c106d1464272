use crate::analysis::naming::Names;
use crate::limits;
use crate::managed::CodeEntry;
use crate::report::{PerfMapReport, PerfMapRow};
use crate::session::Session;

/// All code that the process's runtimes made or loaded, by address.
pub fn perfmap(session: &Session<'_>) -> PerfMapReport {
    let names = Names::new(session);
    let mut entries = Vec::new();
    let mut room = limits::MAX_METHOD_NAMES;
    for code in names.runtimes() {
        code.each(&mut |found| {
            let length = if let CodeEntry::Method(method, _) = &found { method.name.len() } else { 0 };
            let Some(rest) = room.checked_sub(length) else {
                names.partial(format!("the names of methods end after {} bytes", limits::MAX_METHOD_NAMES));
                return false;
            };
            room = rest;
            match found {
                CodeEntry::Method(method, tier) => {
                    let name = one_line(&method.name);
                    let cold = method.cold.map(|(start, size)| PerfMapRow {
                        start,
                        size,
                        name: name.clone(),
                        tier,
                        part: Some("cold"),
                    });
                    entries.push(PerfMapRow { start: method.start, size: method.size, name, tier, part: None });
                    entries.extend(cold);
                }
                CodeEntry::Stubs(start, size, kind) => entries.push(PerfMapRow {
                    start,
                    size,
                    name: format!("stub<{kind}>"),
                    tier: None,
                    part: Some("stubs"),
                }),
            }
            true
        });
    }
    names.note_missing();
    entries.retain(|e| e.size > 0);
    entries.sort_by_key(|e| (e.start, e.size));
    PerfMapReport { entries }
}

/// The form has one line an entry, and names come from the core.
fn one_line(name: &str) -> String {
    crate::bytes::printable(name).into_owned()
}
