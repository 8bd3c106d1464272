use crate::analysis::naming::Names;
use crate::limits;
use crate::report::{PerfMapReport, PerfMapRow};
use crate::session::Session;

/// All code that the process's runtimes made or loaded, by address.
pub fn perfmap(session: &Session<'_>) -> PerfMapReport {
    let names = Names::new(session);
    let mut entries = Vec::new();
    let mut room = limits::MAX_METHOD_NAMES;
    for methods in names.runtimes() {
        methods.all(|found| {
            let Some(rest) = room.checked_sub(found.as_ref().map_or(0, |m| m.name.len())) else {
                names.partial(format!("the names of methods end after {} bytes", limits::MAX_METHOD_NAMES));
                return false;
            };
            room = rest;
            match found {
                Ok(method) => {
                    let versions = methods.versions(&method);
                    let tier = versions.iter().find(|v| v.code == method.start).map(|v| v.tier);
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
                Err(stubs) => entries.push(PerfMapRow {
                    start: stubs.start,
                    size: stubs.size,
                    name: format!("stub<{}>", stubs.kind),
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
