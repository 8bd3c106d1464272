//! Pointers of aarch64 with tags in the byte that the processor ignores, against what the program said.

use crate::support::real::{self, hex};
use crate::support::run::run;
use serde_json::Value;

fn answer(words: &[&str], name: &str) -> Value {
    let path = real::plain(name);
    run(words.iter().copied().chain([path.to_str().unwrap()])).json()
}

/// Sixty blocks in a table of tagged pointers, forty in a list of them, one on a stack; and twenty by plain pointers.
#[test]
fn a_tagged_pointer_keeps_its_block() {
    let name = "native-aarch64-tags";
    let truth = real::own_report(name);
    let leaks = answer(&["leaks", "--json"], name);
    assert_eq!(leaks["leaked"]["count"], 0, "{leaks:#}");
    let table = truth["table"].as_array().unwrap();
    assert_eq!(table.len(), 60);
    for pointer in [&table[0], &table[59], &truth["on_a_stack"]] {
        let text = pointer.as_str().unwrap();
        let block = hex(pointer) & 0x00ff_ffff_ffff_ffff;
        assert_ne!(hex(pointer), block, "it has a tag");
        let found = answer(&["whatis", "--json", text], name);
        assert_eq!((&found["region"]["kind"], hex(&found["address"])), (&"Malloc".into(), block), "{found:#}");
    }
    let refs = answer(&["refs", "--json", table[3].as_str().unwrap()], name);
    let places: Vec<u64> = refs["refs"].as_array().unwrap().iter().map(|row| hex(&row["address"])).collect();
    assert!(places.contains(&(hex(&truth["table_at"]) + 3 * 8)), "{refs:#}");
}

#[test]
fn a_failed_tag_check_is_named() {
    let name = "native-aarch64-mte";
    let triage = answer(&["triage", "--json"], name);
    let first = &triage["findings"][0];
    let text = first["text"].as_str().unwrap();
    assert_eq!((&first["id"], &first["severity"]), (&"crash".into(), &"critical".into()));
    assert!(text.contains(real::own_report(name)["si_addr"].as_str().unwrap()) && text.contains("tag check"), "{text}");
}
