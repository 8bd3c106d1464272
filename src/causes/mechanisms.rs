//! Mechanisms that retain memory: timers, listeners, calls that never end. They explain more than the holder of the
//! same bytes.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::causes::ranking::{MECHANISMS, of_holder};
use crate::report::Finding;

/// Sets the severity of findings on mechanisms by the bytes that they retain, as for holders. `live`: bytes of live
/// objects.
pub(crate) fn judge(findings: &mut [Finding], live: u64) {
    for finding in findings.iter_mut().filter(|finding| MECHANISMS.contains(&finding.id)) {
        if let Some(bytes) = finding.bytes {
            finding.severity = of_holder(bytes, live.max(bytes));
        }
    }
}

/// Returns the objects whose holders the sentences name.
pub(crate) fn held(findings: &[Finding]) -> impl Iterator<Item = Addr> {
    findings.iter().filter_map(|finding| Some(finding.held?.object))
}

/// Adds the names of holders to the sentences.
pub(crate) fn name_holders(findings: &mut [Finding], owners: &HashMap<Addr, String>) {
    for finding in findings {
        let Some(held) = finding.held.take() else { continue };
        if let Some(owner) = owners.get(&held.object) {
            // A name of a field or class keeps its first letter.
            let name = match owner.split_once(" variable ").filter(|(kind, _)| !kind.contains(' ')) {
                Some((kind, rest)) => format!("{} variable {rest}", capital(kind)),
                None => owner.clone(),
            };
            finding.text.push_str(&format!(" {name}{}", held.sentence));
            // Only the field. Leave out the holder of the field's object.
            let field = owner.split_once(" (objects of ").map_or(owner.as_str(), |(field, _)| field);
            finding.holder = Some(field.to_owned());
        }
    }
}

/// Returns a word as the first of a sentence.
fn capital(word: &str) -> String {
    let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
    format!("{}{rest}", first.to_ascii_uppercase())
}

/// Joins a mechanism with the holder of the functions that would end it, since both have the same memory.
pub(super) fn join(findings: &mut Vec<Finding>) {
    let named: Vec<(usize, String)> =
        findings.iter().enumerate().filter_map(|(i, finding)| Some((i, finding.holder.clone()?))).collect();
    for (index, holder) in named {
        let is_it = |finding: &&Finding| finding.id == "retained" && finding.text.contains(&format!(": {holder} "));
        let Some(of) = findings.iter().find(is_it) else { continue };
        let (text, bytes, severity, within) = (of.text.clone(), of.bytes, of.severity, of.within);
        if let Some(finding) = findings.get_mut(index).filter(|finding| finding.bytes < bytes) {
            finding.text.push_str(&format!(" Of the same holder: {text}"));
            (finding.bytes, finding.within) = (bytes, within);
            finding.severity = finding.severity.max(severity);
        }
    }
    // Remove a finding that another one contains.
    let texts: Vec<String> = findings.iter().filter(|f| f.holder.is_some()).map(|f| f.text.clone()).collect();
    findings.retain(|finding| finding.id != "retained" || !texts.iter().any(|text| text.contains(&finding.text)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Severity;

    #[test]
    fn calls_and_the_holder_of_what_settles_them_are_one_finding() {
        let object = Addr::new(0x10);
        let calls = Finding::new("async-chains", Severity::Info, "9 calls of pay are suspended.", "");
        let mut all = vec![
            calls.about(1 << 20).held(object, " has what settles them."),
            Finding::new("retained", Severity::Warning, "40 MiB: Desk.waiting (Map) retains 9 Object.", "")
                .about(40 << 20),
            Finding::new("retained", Severity::Info, "2 MiB: Log.lines (Array) retains 9 Line.", "").about(2 << 20),
        ];
        name_holders(&mut all, &HashMap::from([(object, "Desk.waiting".to_owned())]));
        join(&mut all);
        let texts: Vec<&str> = all.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "9 calls of pay are suspended. Desk.waiting has what settles them. Of the same holder: 40 MiB: \
                 Desk.waiting (Map) retains 9 Object.",
                "2 MiB: Log.lines (Array) retains 9 Line."
            ]
        );
        assert_eq!(all.first().map(|f| (f.bytes, f.severity)), Some((Some(40 << 20), Severity::Warning)));
    }

    #[test]
    fn what_a_mechanism_retains_makes_it_a_warning() {
        let timers = |bytes| Finding::new("timers", Severity::Info, "", "").about(bytes);
        let mut all = vec![timers(20 << 20), timers(2 << 20)];
        judge(&mut all, 30 << 20);
        assert_eq!(all.iter().map(|f| f.severity).collect::<Vec<_>>(), [Severity::Warning, Severity::Info]);
    }
}
