//! `whatis` against what its siblings say of the same addresses.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::real::{hex as number, plain};
use crate::support::run::{program, run};

/// What a command of a core says.
fn says(args: &[&str], core: &str) -> Value {
    run(args.iter().chain(&["--json"]).copied().chain([core])).json()
}

fn at(core: &str, address: u64) -> Value {
    says(&["whatis", &format!("{address:#x}")], core)
}

fn core(name: &str) -> PathBuf {
    plain(name)
}

fn rows<'v>(v: &'v Value, list: &str) -> &'v Vec<Value> {
    v[list].as_array().unwrap()
}

/// Of dotnet8-objects: an object with a field of every kind, and an array of strings.
const ALL_TYPES: &str = "0x7f4e2cc08dd0";

#[test]
fn an_address_in_an_object_is_told_with_its_field() {
    let core = core("dotnet8-objects");
    let core = core.to_str().unwrap();
    let object = says(&["object", ALL_TYPES], core);
    let mut looked = 0;
    for field in rows(&object, "fields").iter().step_by(5) {
        let place = number(&field["address"]);
        let v = at(core, place);
        assert_eq!((&v["object"]["address"], &v["object"]["type"]), (&object["object"], &object["type"]), "{field}");
        assert_eq!(v["object"]["offset"], place - number(&object["object"]));
        assert_eq!((&v["object"]["size"], &v["object"]["generation"]), (&object["size"], &object["generation"]));
        let told = v["object"]["field"].as_str().unwrap();
        assert_eq!(told.split('.').next(), field["name"].as_str(), "{field}");
        assert!(v["block"].is_null() && v["handle"].is_null() && v["descriptor"].is_null() && v["frame"].is_null());
        looked += 1;
    }
    assert!(looked > 3, "{object}");
    // Of its start and its header no field is told.
    for offset in [0, 4] {
        let v = at(core, number(&object["object"]) + offset);
        assert_eq!((&v["object"]["offset"], &v["object"]["field"]), (&offset.into(), &Value::Null));
    }
    let text = rows(&object, "fields").iter().find(|f| f["name"] == "Text").unwrap();
    let v = at(core, number(&text["object"]) + 14);
    assert_eq!((&v["object"]["type"], &v["object"]["value"]), (&"System.String".into(), &text["value"]));
    assert_eq!(v["object"]["field"], "[1]");
}

#[test]
fn method_tables_and_methods_are_told_by_name_at_their_start_alone() {
    let core = core("dotnet8-methods");
    let core = core.to_str().unwrap();
    let method = &says(&["ip2method", "0x7f8e3e84433c"], core)["results"][0];
    let v = at(core, number(&method["ip"]));
    assert_eq!(v["method"], *method);
    let code = v["code"].as_str().unwrap();
    assert!(code.starts_with(method["method"].as_str().unwrap()), "{code}");
    let (desc, table) = (number(&method["method_desc"]), number(&method["method_table"]));
    let v = at(core, desc);
    assert_eq!((&v["descriptor"]["kind"], &v["descriptor"]["name"]), (&"MethodDesc".into(), &method["method"]));
    assert_eq!(v["descriptor"]["module"], method["module"]);
    let v = at(core, table);
    assert_eq!(v["descriptor"]["kind"], "MethodTable");
    let of = v["descriptor"]["name"].as_str().unwrap();
    assert_eq!(of, "System.Reflection.CerHashtable<System.__Canon, System.__Canon>", "{method}");
    for inside in [desc + 1, desc + 8, table + 8, table + 4, table - 8] {
        assert_eq!(at(core, inside)["descriptor"], Value::Null, "{inside:#x}");
    }
}

#[test]
fn types_of_the_heap_are_found_by_their_method_tables() {
    for name in ["dotnet31-createdump", "dotnet8-objects"] {
        let core = core(name);
        let core = core.to_str().unwrap();
        let stat = says(&["heapstat"], core);
        let mut looked = 0;
        for row in rows(&stat, "types").iter().filter(|r| r["type"] != "Free").step_by(60) {
            let v = at(core, number(&row["method_table"]));
            assert_eq!((&v["descriptor"]["kind"], &v["descriptor"]["name"]), (&"MethodTable".into(), &row["type"]));
            looked += 1;
        }
        assert!(looked > 1, "{name}");
    }
}

#[test]
fn handles_are_told_with_their_objects() {
    let core = core("dotnet31-createdump");
    let core = core.to_str().unwrap();
    let handles = says(&["handles"], core);
    for row in rows(&handles, "handles").iter().step_by(20) {
        // The object's size is told with the object.
        let mut row = row.clone();
        row.as_object_mut().unwrap().remove("size");
        for offset in [0, 7] {
            assert_eq!(at(core, number(&row["address"]) + offset)["handle"], row);
        }
    }
}

#[test]
fn a_frame_is_told_by_any_address_in_it() {
    let core = core("dotnet8-threads");
    let core = core.to_str().unwrap();
    let threads = says(&["threads"], core);
    let mut looked = 0;
    for thread in rows(&threads, "threads").iter().take(8) {
        let frames = rows(thread, "frames");
        let real: Vec<usize> = (0..frames.len()).filter(|&i| frames[i]["frame"].is_null()).collect();
        for pair in real.windows(2).take(3) {
            let [sp, end] = [0, 1].map(|i| number(&frames[pair[i]]["sp"]));
            if sp == end {
                continue;
            }
            for place in [sp, end - 1] {
                let found = at(core, place)["frame"].clone();
                assert_eq!((&found["thread"], &found["index"]), (&thread["tid"], &pair[0].into()), "{found}");
                assert_eq!((number(&found["sp"]), number(&found["end"])), (sp, end));
            }
            looked += 1;
        }
        // What calls left behind is of no frame.
        if let Some(&first) = real.first() {
            assert_eq!(at(core, number(&frames[first]["sp"]) - 256)["frame"], Value::Null);
        }
    }
    assert!(looked > 3);
}

#[test]
fn a_block_is_told_with_those_like_it() {
    let core = core("native-malloc-gcore");
    let core = core.to_str().unwrap();
    let clusters = says(&["malloc"], core);
    let mut looked = 0;
    for row in rows(&clusters, "clusters").iter().filter(|r| r["kind"] != "mixed").take(6) {
        let v = at(core, number(&row["example"]) + 1);
        let found = &v["block"]["cluster"];
        for key in ["size", "count", "bytes", "kind", "first_word", "fill", "symbol"] {
            assert_eq!(found[key], row[key], "{key}: {found} {row}");
        }
        assert_eq!(v["block"]["start"], row["example"]);
        assert_eq!(v["owner"], Value::Null, "no runtime, no objects");
        looked += 1;
    }
    assert!(looked > 2);
}

#[test]
fn native_memory_that_an_object_holds_has_an_owner() {
    let core = core("dotnet31-createdump");
    let core = core.to_str().unwrap();
    let holders = says(&["holders"], core);
    let rows = rows(&holders, "holders");
    assert!(rows.len() > 1, "{holders}");
    for held in rows {
        let v = at(core, number(&held["block"]) + 1);
        let owner = &v["owner"];
        assert_eq!((&owner["kind"], &owner["address"]), (&"object".into(), &held["object"]), "{v}");
        assert_eq!((&owner["type"], &owner["field"]), (&held["type"], &held["field"]));
    }
}

#[test]
fn an_image_makes_nobody_walk_the_heaps() {
    let core = core("dotnet31-createdump");
    let v = at(core.to_str().unwrap(), number(&says(&["info"], core.to_str().unwrap())["modules"][0]["base"]));
    for key in ["object", "handle", "frame", "block", "owner", "descriptor", "method"] {
        assert_eq!(v[key], Value::Null, "{key}");
    }
}

#[test]
fn text_is_told_where_bytes_are_asked_for() {
    let core = core("native-glibc-kernel");
    let core = core.to_str().unwrap();
    let hits = says(&["search", "coremap-", "--encoding", "utf16", "--limit", "1"], core);
    let place = hits["hits"][0]["address"].as_str().unwrap();
    assert_eq!(says(&["whatis", place], core)["text"], Value::Null);
    let v = says(&["whatis", "--bytes", "64", place], core);
    assert!(v["text"].as_str().unwrap().starts_with("coremap-"), "{v}");
}

#[test]
fn many_addresses_are_told_as_one_by_one() {
    let core = core("dotnet31-createdump");
    let core = core.to_str().unwrap();
    let handles = says(&["handles"], core);
    let one = &rows(&handles, "handles")[0];
    let holders = says(&["holders"], core);
    let block = holders["holders"][0]["block"].as_str().unwrap();
    // In no order, one twice, one that is not mapped.
    let asked = [block, one["object"].as_str().unwrap(), "0x10", one["address"].as_str().unwrap(), block];
    let all = says(&[&["whatis"], &asked[..]].concat(), core);
    let results = rows(&all, "results");
    assert_eq!(results.len(), asked.len());
    for (address, found) in asked.iter().zip(results) {
        let alone = says(&["whatis", address], core);
        assert_eq!((&alone["results"][0], alone["results"].as_array().unwrap().len()), (found, 1), "{address}");
        assert_eq!(alone["address"], *address);
        for (key, value) in found.as_object().unwrap() {
            assert_eq!(alone[key], *value, "{address}: {key}");
        }
    }
    assert_eq!((&all["address"], &all["owner"]), (&results[0]["address"], &results[0]["owner"]));
    assert!(!results[4]["owner"].is_null() && !results[1]["object"].is_null() && results[2]["region"].is_null());
    let table = run([&["whatis"], &asked[..], &[core]].concat());
    table.exits(0);
    assert_eq!(table.stdout.lines().filter(|l| l.contains(" is ")).count(), asked.len(), "{}", table.stdout);
    let csv = run([&["whatis", "--format", "csv"], &asked[..], &[core]].concat());
    // A header, and a row for each that is mapped.
    assert_eq!(csv.stdout.lines().count(), asked.len(), "{}", csv.stdout);
    let input = asked.join("\n").into_bytes();
    let out = program(["whatis", "--json", "-", core]).input(input).go().json();
    assert_eq!(out["results"], all["results"]);
    // Status 1 where none of them is mapped.
    run(["whatis", "0x10", "0x20", core]).exits(1);
}
