//! What `search` says of its hits: the object, the match in its context, and words that hold an address.

use serde_json::Value;

use crate::support::builder::{CoreBuilder, Load};
use crate::support::real::{hex, plain};
use crate::support::run::run;

fn hits(args: &[&str], core: &str) -> Vec<Value> {
    let v = run([&["search", "--json"], args, &[core]].concat()).json();
    v["hits"].as_array().unwrap().clone()
}

#[test]
fn a_hit_in_the_heap_has_an_object() {
    let core = plain("dotnet8-objects");
    let core = core.to_str().unwrap();
    let found = hits(&["all types", "--encoding", "utf16", "--kind", "GCHeap"], core);
    assert!(!found.is_empty());
    for hit in &found {
        let whatis = run(["whatis", "--json", hit["address"].as_str().unwrap(), core]).json();
        let object = &whatis["object"];
        assert_eq!((&hit["object"], &hit["type"]), (&object["address"], &object["type"]), "{hit}");
        assert_eq!(hit["field"], object["field"], "{hit}");
    }
    let string = found.iter().find(|h| h["type"] == "System.String").unwrap();
    // The text begins with these words.
    assert_eq!((hex(&string["address"]) - hex(&string["object"]), &string["field"]), (12, &"[0]".into()));
    let table = run(["search", "all types", "--kind", "GCHeap", core]).stdout;
    assert!(table.contains(&format!("{} System.String[0]", string["object"].as_str().unwrap())), "{table}");
    // Elsewhere none has.
    let native = plain("native-glibc-kernel");
    assert!(hits(&["coremap-"], native.to_str().unwrap()).iter().all(|h| h["object"].is_null()));
}

#[test]
fn the_match_is_marked_in_its_context() {
    let core = plain("native-glibc-kernel");
    let core = core.to_str().unwrap();
    let mut encodings = Vec::new();
    for (args, wanted) in [
        (&["coremap-"][..], "coremap-"),
        (&["-i", "COREMAP-"], "coremap-"),
        (&["--regex", "core[a-z]+-"], "coremap-"),
        (&["--hex", "63 6f ?? 65"], "core"),
    ] {
        let found = hits(&[args, &["--context"]].concat(), core);
        assert!(!found.is_empty(), "{args:?}");
        for hit in found {
            let context: Vec<char> = hit["context"].as_str().unwrap().chars().collect();
            let [at, len] = ["match_start", "match_length"].map(|key| hit[key].as_u64().unwrap() as usize);
            assert_eq!(context[at..at + len].iter().collect::<String>().to_lowercase(), wanted, "{hit}");
            encodings.push(hit["encoding"].clone());
        }
        let table = run([&["search", "--context"], args, &[core]].concat()).stdout;
        assert!(table.contains(&format!("»{wanted}«")), "{table}");
    }
    assert!(encodings.contains(&"utf8".into()) && encodings.contains(&"utf16".into()));
    assert!(hits(&["coremap-"], core).iter().all(|h| h["match_start"].is_null() && h["context"].is_null()));
}

#[test]
fn an_address_is_found_in_words() {
    let mut bytes = vec![0; 0x1000];
    let target = 0x7fe7_44a0_fdd0_u64;
    for at in [0x10, 0x103, 0x800, 0xff8] {
        bytes[at..at + 8].copy_from_slice(&target.to_le_bytes());
    }
    let file = CoreBuilder::x86_64().load(Load::at(0x10_0000).bytes(bytes)).write();
    let core = file.path().to_str().unwrap();
    let found = hits(&["--pointer", "0x7fe744a0fdd0"], core);
    let places: Vec<u64> = found.iter().map(|h| hex(&h["address"])).collect();
    // Not that at an odd place, which is no word.
    assert_eq!(places, [0x10_0010, 0x10_0800, 0x10_0ff8]);
    assert!(found.iter().all(|h| h["encoding"] == "pointer" && h["length"] == 8));
    let v = run(["search", "--json", "--limit", "1", "--pointer", "00007fe7`44a0fdd0", core]).json();
    assert_eq!((v["total"].as_u64(), v["hits"].as_array().unwrap().len()), (Some(3), 1));
    assert_eq!(hits(&["--hex", "d0 fd a0 44 e7 7f 00 00"], core).len(), 4);
    // By a module's name, and with the core first.
    let native = plain("native-glibc-kernel");
    let native = native.to_str().unwrap();
    run(["search", "--pointer", "libc.so.6+0x0", native]).exits(0);
    run(["search", "--pointer", native, "libc.so.6+0x0"]).exits(0);
    let out = run(["search", "--pointer", "main", native]);
    assert!(out.exits(2).stderr.contains("is not an address"), "{}", out.stderr);
}

#[test]
fn digits_behind_0x_ask_what_is_meant() {
    let core = plain("native-glibc-kernel");
    let out = run(["search", "--hex", "0x7fe744a0fdd0", core.to_str().unwrap()]);
    let said = &out.exits(2).stderr;
    assert!(said.contains("--pointer 0x7fe744a0fdd0") && said.contains("'7f e7 44 a0 fd d0'"), "{said}");
    run(["search", "--hex", "0x7f 0x45 0x4c 0x46", core.to_str().unwrap()]).exits(0);
}
