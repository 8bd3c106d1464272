//! Lines that several tables have in common.

use crate::diag::Warning;
use crate::render::document::{CRITICAL, CRITICAL_WORD, Document, INFO, WARNING, WARNING_WORD};
use crate::render::generics::shorten_generics;
use crate::report::{CoreRow, Finding, Severity, StackRootsRow};
use crate::units::{count, exact, human, round};

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
    for unread in &core.unread {
        let help = unread.file.as_ref().map_or_else(String::new, |file| format!(": give --symbols DIR with {file}"));
        parts.push(format!("{} (unread{help})", unread.name));
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

/// Width of a finding's severity, and of the mark of a finding that belongs to another, in columns.
const TITLE: usize = 10;
const NESTED: usize = 2;

/// Position of a finding among the others.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On its own. Its text names the finding that it belongs to, if there is one.
    Own,
    /// Below the finding that it belongs to.
    Nested,
}

/// Adds a finding: severity, size and share before the text, then evidence, and the command that shows more.
#[doc(hidden)]
pub fn triaged(doc: &mut Document<'_>, finding: &Finding, place: Place) {
    let (mark, indent) = match place {
        Place::Own => (format!("{:<TITLE$}", word(finding.severity)), TITLE),
        Place::Nested => (format!("{:TITLE$}{INFO:<NESTED$}", ""), TITLE + NESTED),
    };
    let within = finding.within.filter(|_| place == Place::Own).map(|id| format!("within {}", id.replace('-', " ")));
    let share = finding.share.filter(|_| finding.bytes.is_some()).map(|share| format!("{:.1} %", share * 100.0));
    let amount: Vec<String> = [finding.bytes.map(round), share, within].into_iter().flatten().collect();
    let amount = if finding.bytes.is_some() { format!("{}: ", amount.join(", ")) } else { String::new() };
    doc.line(String::new());
    doc.titled(format!("{mark}{amount}{}", shorten_generics(&finding.text)), indent);
    let sure = finding.confidence.map_or_else(String::new, |c| format!(" ({})", c.name()));
    doc.line(format!("{:indent$}Evidence{sure}: {}", "", shorten_generics(&finding.evidence)));
    if let Some(command) = &finding.command {
        // The command is copied, so it is never wrapped.
        doc.unwrapped(format!("{:indent$}{command}", ""));
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => CRITICAL_WORD,
        Severity::Warning => WARNING_WORD,
        Severity::Info => "",
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
