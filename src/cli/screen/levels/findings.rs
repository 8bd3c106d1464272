//! The list of findings, most important first. Until triage has finished, the findings of the summary.

use coremap::report::{Finding, Severity};
use coremap::targets::Producer;

use crate::cli::screen::level::{Level, Mark, Opens, Row, Sort};
use crate::cli::screen::look::Look;
use crate::cli::screen::words;

pub(super) fn level(look: &Look) -> Option<Level> {
    let live = look.core.as_ref().is_some_and(|core| core.producer == Producer::Live);
    let (findings, note) = match (&look.findings, &look.map) {
        (Some(report), _) => {
            let mut note = format!("{}; {}", report.sums(), report.explained());
            for left in &report.left_out {
                note.push_str(&format!("; skipped for time: {left}"));
            }
            (&report.findings, note)
        }
        (None, Some(map)) if live => (
            &map.summary.findings,
            "from structures only; the last row stops the process and reads all of its memory".to_owned(),
        ),
        (None, Some(map)) => (&map.summary.findings, "preliminary; reading all of memory …".to_owned()),
        (None, None) => return None,
    };
    let mut rows: Vec<Row> = findings.iter().map(row).collect();
    // Several findings may have the same id.
    for at in 1..rows.len() {
        let (before, rest) = rows.split_at_mut(at);
        if let Some(row) = rest.first_mut() {
            let again = before.iter().filter(|other| other.key.split('#').next() == Some(&row.key)).count();
            if again > 0 {
                row.key = format!("{}#{again}", row.key);
            }
        }
    }
    if live {
        let words = vec!["triage".to_owned()];
        let name = "Full triage of all memory".to_owned();
        let (opens, command) = (Opens::Command, Some(words));
        rows.push(Row { key: "(triage)".into(), name, opens, command, ..Row::default() });
    }
    Some(Level {
        noun: "finding",
        measure: "Bytes",
        name: "Finding",
        rows,
        sentences: true,
        sort: Sort::Given,
        note: Some(note),
        ..Level::default()
    })
}

fn row(finding: &Finding) -> Row {
    let mut about = vec![("evidence", finding.evidence.clone())];
    if let Some(confidence) = finding.confidence {
        about.push(("confidence", confidence.name().to_owned()));
    }
    if let Some(within) = finding.within {
        about.push(("part of", within.to_owned()));
    }
    about.push(("id", finding.id.to_owned()));
    let command = finding.command.as_deref().and_then(words::of_finding);
    Row {
        key: finding.id.to_owned(),
        name: finding.text.clone(),
        bytes: finding.bytes,
        share: finding.share,
        mark: match finding.severity {
            Severity::Critical => Mark::Critical,
            Severity::Warning => Mark::Warning,
            Severity::Info => Mark::Info,
        },
        about,
        opens: if command.is_some() { Opens::Command } else { Opens::Nothing },
        command,
        ..Row::default()
    }
}
