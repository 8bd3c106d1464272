//! Joins findings with the same cause.

use crate::causes::{finalizers, mechanisms};
use crate::report::{Finding, Severity};

/// Joins findings, so that no two report the same.
pub(crate) fn join(findings: &mut Vec<Finding>) {
    stack_overflow(findings);
    out_of_memory(findings);
    mechanisms::join(findings);
    memory_limit(findings);
    finalizers::join(findings);
    fragmentation(findings);
    native_blocks(findings);
    collector_off(findings);
    let has = |id: &str| findings.iter().any(|finding| finding.id == id);
    if !has("malloc") && has("allocator") {
        // These blocks belong to another allocator than the C library's.
        findings.iter_mut().filter(|f| f.within == Some("malloc")).for_each(|f| f.within = Some("allocator"));
    }
    // Remove findings that another finding contains.
    let containing: Vec<String> =
        findings.iter().filter(|finding| finding.id == "collectible-assemblies").map(|f| f.text.clone()).collect();
    findings.retain(|finding| finding.id != "retained" || !containing.iter().any(|text| text.contains(&finding.text)));
}

/// Joins a collector that is off with the garbage that it leaves.
fn collector_off(findings: &mut Vec<Finding>) {
    let is_warning = |finding: &Finding| finding.severity == Severity::Warning;
    if findings.iter().any(|finding| finding.id == "collector-off" && is_warning(finding)) {
        findings.retain(|finding| finding.id != "collector-off" || is_warning(finding));
    }
}

/// Joins a heap at its limit with the largest holder.
fn memory_limit(findings: &mut [Finding]) {
    let holder = findings.iter().filter(|finding| finding.id == "retained").max_by_key(|finding| finding.bytes);
    let Some(text) = holder.map(|holder| holder.text.clone()) else { return };
    let at_limit = |finding: &&mut Finding| finding.id == "memory-limit" && finding.severity > Severity::Info;
    if let Some(finding) = findings.iter_mut().find(at_limit) {
        finding.text.push_str(&format!(" Largest holder: {text}"));
    }
}

/// Joins free space between objects with the holder of the objects.
fn fragmentation(findings: &mut [Finding]) {
    let holder = findings.iter().filter(|finding| finding.id == "retained").max_by_key(|finding| finding.bytes);
    let Some(text) = holder.map(|holder| holder.text.clone()) else { return };
    if let Some(finding) = findings.iter_mut().find(|finding| finding.id == "heap-fragmentation") {
        finding.text.push_str(&format!(" Largest holder of what survives: {text}"));
    }
}

/// Maximum difference between the bytes of an owner's blocks and of equal blocks, in percent, at which both are the
/// same blocks.
const SAME: u64 = 2;

/// Removes findings on blocks of one size if a finding on their owners covers them.
fn native_blocks(findings: &mut Vec<Finding>) {
    let owned: Vec<u64> = findings.iter().filter(|f| f.id == "native-owner").filter_map(|f| f.bytes).collect();
    let is_owned =
        |bytes: u64| owned.iter().any(|of| of.abs_diff(bytes).saturating_mul(100) <= of.saturating_mul(SAME));
    findings.retain(|finding| finding.id != "malloc-equal-blocks" || !finding.bytes.is_some_and(is_owned));
}

/// Keeps only the stack overflow that ended the process.
fn stack_overflow(findings: &mut Vec<Finding>) {
    let ended = |finding: &Finding| finding.id == "stack-overflow" && finding.severity == Severity::Critical;
    if findings.iter().any(ended) {
        findings.retain(|finding| finding.id != "stack-overflow" || ended(finding));
    }
}

/// Joins a failed allocation with the end of its process and with the largest holder.
fn out_of_memory(findings: &mut Vec<Finding>) {
    let Some(at) = findings.iter().position(|finding| finding.id == "out-of-memory") else { return };
    // Remove failures that were caught before the one that ended the process.
    if findings.get(at).is_some_and(|finding| finding.severity == Severity::Critical) {
        let mut first = true;
        findings.retain(|finding| finding.id != "out-of-memory" || std::mem::take(&mut first));
    }
    let thread = findings.get(at).and_then(|finding| finding.command.clone());
    let is_holder = |finding: &&Finding| ["retained", "native-holder", "native-lost"].contains(&finding.id);
    let holder = findings.iter().filter(is_holder).max_by_key(|finding| finding.bytes);
    let holder = holder.map(|holder| (holder.text.clone(), holder.bytes, holder.within));
    if let (Some(finding), Some((text, bytes, within))) = (findings.get_mut(at), holder) {
        finding.text.push_str(&format!(" Largest holder: {text}"));
        finding.bytes = bytes;
        finding.within = within;
        // The holder is in this finding now.
        findings.retain(|finding| finding.text != text || finding.id == "out-of-memory");
    }
    findings.retain(|finding| finding.id != "crash" || finding.command != thread);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &'static str, text: &str, bytes: u64) -> Finding {
        Finding::new(id, Severity::Info, text, "").about(bytes)
    }

    #[test]
    fn the_holder_of_a_failed_allocation_is_told_once() {
        let mut all = vec![
            of("out-of-memory", "Out of memory.", 0),
            of("retained", "Cache retains 9 Page.", 90),
            of("retained", "Log retains 2 Line.", 5),
        ];
        join(&mut all);
        let texts: Vec<&str> = all.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts, ["Out of memory. Largest holder: Cache retains 9 Page.", "Log retains 2 Line."]);
        assert_eq!(all.first().and_then(|finding| finding.bytes), Some(90));
    }

    #[test]
    fn no_finding_repeats_another() {
        let mut all = vec![
            of("malloc-equal-blocks", "500 blocks", 64_008_000),
            of("malloc-equal-blocks", "9 blocks", 8_000_000),
            of("native-owner", "pixels", 64_000_000),
            of("retained", "Engine.active retains 40 Func.", 20 << 20),
            of("collectible-assemblies", "40 contexts. Engine.active retains 40 Func.", 1 << 20),
            of("heap-fragmentation", "Fragmentation: 146 MiB.", 146 << 20),
        ];
        join(&mut all);
        let texts: Vec<&str> = all.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "9 blocks",
                "pixels",
                "40 contexts. Engine.active retains 40 Func.",
                "Fragmentation: 146 MiB. Largest holder of what survives: Engine.active retains 40 Func."
            ]
        );
    }
}
