//! Lines that several tables have in common.

use crate::diag::Warning;
use crate::render::document::{CRITICAL, Document, INFO, WARNING};
use crate::report::{CoreRow, Finding, Severity, StackRootsRow};
use crate::units::{count, exact, human};

/// Adds the numbers of precise and conservative stack roots.
#[doc(hidden)]
pub fn stack_lines(doc: &mut Document<'_>, stacks: &StackRootsRow) {
    if stacks.threads == 0 {
        return;
    }
    let known = match stacks.frames_conservative {
        0 => String::new(),
        n => format!(" ({} without GC info)", count(n, "frame")),
    };
    doc.line(format!(
        "stacks of {}: {} from GC info of {} and the runtime's lists{known}; {} conservative",
        count(stacks.threads, "thread"),
        count(stacks.roots_precise, "root"),
        count(stacks.frames_precise, "frame"),
        exact(stacks.roots_conservative),
    ));
    for row in &stacks.conservative {
        doc.line(format!("    conservative for {}: {}", count(row.threads, "thread"), row.why));
    }
}

/// Names the roots and references that could not be read.
#[doc(hidden)]
pub fn not_read_line(doc: &mut Document<'_>, not_read: &[String]) {
    if !not_read.is_empty() {
        doc.line(format!("not read: {}. What only these retain may be alive", not_read.join(", ")));
    }
}

/// The first line of every table: the core and its state.
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
    parts.push(count(core.threads as u64, "thread"));
    if let Some(ms) = core.stopped_ms {
        parts.push(if ms > 0.0 { format!("stopped for {ms} ms") } else { "not stopped".to_owned() });
    }
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

pub(crate) fn warnings(warnings: &[Warning]) -> Document<'_> {
    let mut doc = Document::default();
    if !warnings.is_empty() {
        doc.line("");
        doc.line("Warnings");
        for w in warnings {
            doc.titled(format!("· {}: {}", w.code, w.message), 2);
        }
    }
    doc
}

/// Width of the size and the share before the text of a finding, in columns.
const TITLE: usize = 22;

/// Adds a finding: size and share before the text, then evidence, and the command that shows more.
#[doc(hidden)]
pub fn triaged(doc: &mut Document<'_>, finding: &Finding) {
    let mark = mark(finding.severity);
    let bytes = finding.bytes.map_or_else(String::new, human);
    let share = finding.share.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0));
    doc.line(String::new());
    doc.titled(format!("{mark:<2}{bytes:>11} {share:>7} {}", finding.text), TITLE);
    let sure = finding.confidence.map_or_else(String::new, |c| format!(" ({})", c.name()));
    doc.line_with_bar(format!("Evidence: {}{sure}", finding.evidence), TITLE, finding.share);
    if let Some(command) = &finding.command {
        // The command is copied, so it is never wrapped, and hardly indented.
        doc.unwrapped(format!("    {command}"));
    }
}

fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => CRITICAL,
        Severity::Warning => WARNING,
        Severity::Info => INFO,
    }
}

#[doc(hidden)]
pub fn findings(doc: &mut Document<'_>, list: &[Finding]) {
    for f in list {
        doc.line(format!("{} {}", mark(f.severity), f.text));
    }
}
