//! Findings on malloc's memory: retained memory with its holder, and lost memory.
//!
//! A single core does not show whether retained memory is a leak or a cache, so it is never called a leak. Memory that
//! no pointer reaches is lost, whatever its size.

use crate::analysis::block_graph::{HolderFact, LostFact, NativeHolders, Part, PinFact};
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::units::{count, exact, round};

/// Maximum number of characters of a text that are shown without `--show-data`.
const SHOWN: usize = 8;

/// Minimum number of lost groups for a warning, and minimum size in bytes of a block that a stray word may have
/// reached.
const GROUPS: u64 = 16;
const LARGE: u64 = 64 << 10;

/// Limits for a finding on reserved storage: less than this share in use, in percent, and at least this many bytes
/// unused.
const FILLED: u64 = 50;
const UNUSED: u64 = 1 << 20;

/// Part of the name of the cache for debug information in Rust's library.
const BACKTRACES: &str = "std::backtrace_rs";

/// Returns the findings. `show_data`: whether texts may be shown in full.
pub(crate) fn findings(facts: &NativeHolders, show_data: bool) -> Vec<Finding> {
    let lost = facts.lost.iter().map(|fact| lost(facts, fact, show_data));
    // Rust's library allocates for a backtrace only as the process ends. A single block has a finding of its own, by
    // its size.
    let is_group = |fact: &HolderFact| fact.blocks > 1 || fact.container.is_some();
    let of_program =
        |fact: &&HolderFact| is_group(fact) && fact.root.as_ref().is_none_or(|root| !root.name.contains(BACKTRACES));
    lost.chain(facts.holders.iter().filter(of_program).map(|fact| holder(facts, fact, show_data))).collect()
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

fn texts(all: &[String], show_data: bool) -> String {
    let most = if show_data { usize::MAX } else { SHOWN };
    let mut cut: Vec<String> = Vec::new();
    for text in all {
        let text = format!("\"{}\"", text.chars().take(most).collect::<String>());
        if !cut.contains(&text) {
            cut.push(text);
        }
    }
    if cut.is_empty() { String::new() } else { format!(" Text in them: {}.", cut.join(", ")) }
}

fn classes(all: &[Part]) -> String {
    let each: Vec<String> = all.iter().map(|class| format!("{} {}", exact(class.count), class.what)).collect();
    if each.is_empty() { String::new() } else { format!(" Objects: {}.", each.join(", ")) }
}

fn holder(facts: &NativeHolders, fact: &HolderFact, show_data: bool) -> Finding {
    let share = format!(
        "{} in {}, {} % of used malloc memory",
        round(fact.bytes),
        count(fact.blocks, "malloc block"),
        percent(fact.bytes, facts.used)
    );
    let name = fact.root.as_ref().map(|root| &root.name);
    let who = match (name, fact.alone, fact.threads) {
        (Some(name), true, 0 | 1) => format!("{name} holds {share}"),
        (Some(name), true, threads) => {
            format!("{name}, and the same in {}, hold {share}", count(threads.saturating_sub(1), "more thread"))
        }
        (Some(name), false, _) => format!("{share} have no single holder; {name} leads to them, among others"),
        (None, ..) => format!("{share} have no single holder"),
    };
    let path: Vec<String> = fact.chain.iter().map(Part::words).collect();
    let path = match (path.is_empty(), fact.alone) {
        (true, _) => String::new(),
        (false, true) => format!(", through {}", path.join(" → ")),
        (false, false) => format!("; reached through {}", path.join(" → ")),
    };
    let what = match (&fact.container, fact.linked) {
        (Some(container), _) => {
            let elements = container.count.or(fact.elements.as_ref().map(|elements| elements.count));
            let elements = elements.map_or_else(String::new, |number| format!(" with {}", count(number, "element")));
            let unused = match container.room {
                Some((used, all)) if percent(used, all) < FILLED && all.saturating_sub(used) >= UNUSED => {
                    format!(", of whose {} only {} are in use", round(all), round(used))
                }
                _ => String::new(),
            };
            format!(": a {}{elements}{unused}", container.name)
        }
        (None, Some(_)) => {
            let links = fact.structure().unwrap_or_default();
            format!(": {}{links}", if links.starts_with("list") { "a " } else { "" })
        }
        (None, None) => String::new(),
    };
    let elements = fact.elements.as_ref().map_or_else(String::new, |elements| {
        let sign = if what.is_empty() { ": " } else { "; " };
        let all = match elements.bytes < fact.bytes {
            true => format!(", {} with what they hold", round(elements.bytes)),
            false => String::new(),
        };
        format!("{sign}{}{all}", elements.words())
    });
    let others: Vec<String> = fact.others.iter().map(|other| format!("a {}", other.words())).collect();
    let others = if others.is_empty() { String::new() } else { format!(" Beside it: {}.", others.join(", ")) };
    let (classes, texts) = (classes(&fact.classes), texts(&fact.texts, show_data));
    let text = format!("{who}{path}{what}{elements}.{others}{classes}{texts}");
    let proof = if fact.container.is_some() { "; the container's header agrees with its nodes" } else { "" };
    let evidence = format!("words of variables, stacks and blocks that lead to blocks; dominators{proof}");
    let finding = Finding::new("native-holder", Severity::Info, text, evidence).about(fact.bytes);
    let print = name.cloned().unwrap_or_default();
    finding.known(Confidence::Derived).more("malloc").within("malloc").fingerprinted(print)
}

fn lost(facts: &NativeHolders, fact: &LostFact, show_data: bool) -> Finding {
    let groups = match fact.groups {
        0 | 1 => format!("It begins with one of {}", fact.head),
        groups => format!(
            "{} groups of {} each, beginning with {}",
            exact(groups),
            count(fact.blocks.checked_div(groups).unwrap_or(0).max(1), "block"),
            fact.head
        ),
    };
    let shape = match (fact.cycle, fact.linked) {
        (true, _) => "; the blocks of a group lead only to each other (a reference cycle)".to_owned(),
        (false, Some(offset)) => format!("; the blocks of a group are a list, linked by the word at +{offset}"),
        (false, None) => String::new(),
    };
    let (are, doubt) = match &fact.hidden {
        Some(hidden) => ("may be lost", format!(" They may be in use: {hidden}.")),
        None => ("are lost", String::new()),
    };
    let text = format!(
        "{} in {}, {} % of used malloc memory, {are}: no pointer in memory leads to them.{doubt} {groups}{shape}.{}{}",
        round(fact.bytes),
        count(fact.blocks, "malloc block"),
        percent(fact.bytes, facts.used),
        classes(&fact.classes),
        texts(&fact.texts, show_data)
    );
    let severe = fact.groups >= GROUPS && fact.head_bytes < LARGE && facts.complete && fact.hidden.is_none();
    let severity = if severe { Severity::Warning } else { Severity::Info };
    let missing = match facts.complete {
        true => "; encoded pointers are not seen",
        false => "; not proven: some memory that may have pointers is not in the core",
    };
    let evidence =
        format!("no word in variables, stacks, registers and reached blocks has an address in them{missing}");
    let finding = Finding::new("native-lost", severity, text, evidence).about(fact.bytes);
    finding.known(Confidence::Derived).more("leaks").within("malloc").fingerprinted(fact.head.clone())
}

/// Returns a sentence on the blocks that fragment free memory.
pub(crate) fn fragmented(pins: &PinFact, show_data: bool) -> String {
    let holder = pins.holder.as_ref().map_or_else(String::new, |(name, share)| match share {
        90.. => format!(" {name} holds them."),
        share => format!(" {name} holds {share} % of them."),
    });
    format!(
        " It is fragmented: {} in {} are between {} in use, most of {} bytes.{holder}{}",
        round(pins.free),
        count(pins.pieces, "free piece"),
        count(pins.blocks, "block"),
        exact(pins.size),
        texts(pins.text.as_slice(), show_data)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::analysis::block_graph::ContainerFact;
    use crate::report::NativeRootRow;

    fn facts() -> NativeHolders {
        NativeHolders { used: 40 << 20, complete: true, ..NativeHolders::default() }
    }

    fn class(what: &str, count: u64) -> Part {
        Part { what: what.into(), count, bytes: 0 }
    }

    fn held() -> HolderFact {
        HolderFact {
            bytes: 36 << 20,
            blocks: 150_001,
            root: Some(NativeRootRow { name: "Archive::instance()::archive+0x8".into(), ..NativeRootRow::default() }),
            threads: 1,
            alone: true,
            container: Some(ContainerFact { name: "std::list", count: Some(50_000), room: None }),
            others: Vec::new(),
            chain: Vec::new(),
            elements: Some(Part { what: "blocks of 80 bytes".into(), count: 50_000, bytes: 35 << 20 }),
            linked: None,
            classes: vec![class("StationLog", 50_000)],
            texts: vec!["buoy-session-1000000".into()],
        }
    }

    #[test]
    fn a_holder_is_a_variable_with_its_container_classes_and_text() {
        let found = holder(&facts(), &held(), false);
        assert_eq!(
            found.text,
            "Archive::instance()::archive+0x8 holds 36 MiB in 150,001 malloc blocks, 90 % of used malloc memory: a \
             std::list with 50,000 elements; 50,000 blocks of 80 bytes, 35 MiB with what they hold. Objects: 50,000 \
             StationLog. Text in them: \"buoy-ses\"."
        );
        assert_eq!(found.severity, Severity::Info);
        let many = holder(&facts(), &HolderFact { threads: 4, ..held() }, true);
        assert!(
            many.text.contains("and the same in 3 more threads, hold") && many.text.contains("1000000"),
            "{many:?}"
        );
        let shared = holder(&facts(), &HolderFact { alone: false, container: None, ..held() }, false);
        assert!(shared.text.contains("no single holder"), "{shared:?}");
    }

    #[test]
    fn what_is_lost_is_a_warning_only_if_all_was_read() {
        let fact = LostFact {
            bytes: 28 << 20,
            blocks: 108_000,
            groups: 18_000,
            head: "chat::Room".into(),
            head_bytes: 88,
            cycle: true,
            linked: None,
            classes: vec![class("chat::Member", 54_000), class("chat::Room", 18_000)],
            texts: Vec::new(),
            hidden: None,
            example: Addr::new(0x10),
        };
        let found = lost(&facts(), &fact, false);
        assert_eq!(
            found.text,
            "28 MiB in 108,000 malloc blocks, 70 % of used malloc memory, are lost: no pointer in memory leads to them. \
             18,000 groups of 6 blocks each, beginning with chat::Room; the blocks of a group lead only to each other (a \
             reference cycle). Objects: 54,000 chat::Member, 18,000 chat::Room."
        );
        assert_eq!(found.severity, Severity::Warning);
        let partial = lost(&NativeHolders { complete: false, ..facts() }, &fact, false);
        assert!(partial.severity == Severity::Info && partial.evidence.contains("not proven"), "{partial:?}");
        let hidden = LostFact { hidden: Some("the kernel may have their addresses".into()), ..fact.clone() };
        let doubtful = lost(&facts(), &hidden, false);
        assert!(doubtful.severity == Severity::Info && doubtful.text.contains("may be lost"), "{doubtful:?}");
        assert_eq!(lost(&facts(), &LostFact { groups: 2, ..fact }, false).severity, Severity::Info);
    }

    #[test]
    fn fragmentation_names_what_is_between() {
        let pins = PinFact {
            free: 114 << 20,
            pieces: 29_999,
            blocks: 29_999,
            size: 48,
            alike: 29_999,
            holder: Some(("tile_names".into(), 100)),
            text: Some("tile/58/152.png".into()),
        };
        assert_eq!(
            fragmented(&pins, true),
            " It is fragmented: 114 MiB in 29,999 free pieces are between 29,999 blocks in use, most of 48 bytes. \
             tile_names holds them. Text in them: \"tile/58/152.png\"."
        );
    }
}
