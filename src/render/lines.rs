//! Lines that several tables have.

use crate::render::document::Document;
use crate::report::{CoreRow, Finding, Severity, StackRootsRow};
use crate::units::{exact, human};

/// How much of the stacks is known.
pub(crate) fn stack_lines(doc: &mut Document<'_>, stacks: &StackRootsRow) {
    if stacks.threads == 0 {
        return;
    }
    let known = match stacks.frames_conservative {
        0 => String::new(),
        n => format!(" ({} frames without)", exact(n)),
    };
    doc.line(format!(
        "stacks of {} threads: {} roots by GC info of {} frames and the runtime's lists{known}; {} conservative",
        exact(stacks.threads),
        exact(stacks.roots_precise),
        exact(stacks.frames_precise),
        exact(stacks.roots_conservative),
    ));
    for row in &stacks.conservative {
        let threads = if row.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", exact(row.threads)) };
        doc.line(format!("    conservative on {threads}: {}", row.why));
    }
}

/// The line every table begins with: what core this is.
pub(crate) fn headline(core: &CoreRow) -> Document<'_> {
    let mut parts = vec![human(core.size)];
    if let Some(packed) = core.packed {
        parts[0].push_str(&format!(" unpacked from .{packed}"));
    }
    parts.push(core.producer.to_string());
    parts.push(core.arch.to_string());
    for r in &core.runtimes {
        let gc = r.gc.map_or_else(String::new, |gc| format!(" ({gc} GC)"));
        parts.push(format!("{} {}{gc}", r.name, r.version.as_deref().unwrap_or("?")));
    }
    if let Some(pid) = core.pid {
        parts.push(format!("pid {pid}"));
    }
    parts.push(format!("{} threads", core.threads));
    let mut doc = Document::default();
    if let Some(t) = core.truncation {
        doc.line(format!(
            "! TRUNCATED: the file has {} of {} bytes; {} of memory is missing",
            exact(t.actual),
            exact(t.expected),
            human(t.missing)
        ));
    }
    doc.line(format!("{}  {}", core.path, parts.join(" · ")));
    doc
}

pub(crate) fn findings(doc: &mut Document<'_>, list: &[Finding]) {
    for f in list {
        let mark = if f.severity == Severity::Warning { "!" } else { "·" };
        doc.line(format!("{mark} {}", f.text));
    }
}
