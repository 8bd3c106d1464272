//! `object` and statics against what the programs in the cores hold.

use crate::support::real::{self, plain, truth};
use crate::support::run::run;
use serde_json::{Value, json};

/// Of dotnet8-objects: addresses of objects, as the program itself told them, or
/// found by their type.
mod at {
    pub(crate) const ALL_TYPES: &str = "0x7f4e2cc08dd0";
    pub(crate) const EVENT_HANDLER: &str = "0x7f4e314d9198";
    pub(crate) const EXCEPTION: &str = "0x7f4e31500f20";
    pub(crate) const INT_3_4: &str = "0x7f4e314dd668";
    pub(crate) const STRINGS_FROM_10: &str = "0x7f4e314dd7b0";
    pub(crate) const TASK: &str = "0x7f4e31503620";
    pub(crate) const MAP: &str = "0x7f4e2cc08bc8";
    pub(crate) const PAIRS: &str = "0x7f4e314e62b0";
    pub(crate) const POINTS: &str = "0x7f4e314e62d8";
    pub(crate) const ACTION: &str = "0x7f4e314ea4c0";
    pub(crate) const TUPLE: &str = "0x7f4e314e6268";
    pub(crate) const THREAD_BAG: &str = "0x7f4e31513818";
    pub(crate) const BOX_INT: &str = "0x7f4e31507730";
    pub(crate) const BOX_STRING: &str = "0x7f4e31507788";
}

fn object(address: &str) -> Value {
    let core = plain("dotnet8-objects");
    let core = core.to_str().unwrap();
    run(["object", address, core, "--json"]).exits(0).json()
}

/// The row of that name.
fn named<'v>(rows: &'v Value, name: &str) -> &'v Value {
    rows.as_array().unwrap().iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("no {name} in {rows}"))
}

/// Field by field: a value, or an array of names and values of a struct.
fn field_values(row: &Value) -> Value {
    if !row["value"].is_null() {
        return row["value"].clone();
    }
    let pairs = row["fields"].as_array().unwrap().iter();
    pairs.map(|f| (f["name"].as_str().unwrap().to_owned(), field_values(f))).collect()
}

#[test]
fn every_kind_of_field() {
    let report = object(at::ALL_TYPES);
    // The initializers of Lab.AllTypes.
    let expected = json!({
        "Bool": "true", "U8": "171", "I8": "-5", "I16": "-12345", "U16": "54321", "Ch": "'Ω'",
        "I32": "-123456789", "U32": "4000000000", "I64": "-1234567890123456789", "U64": "18364758544493064720",
        "F32": "1.5", "F64": "-2.25", "Dec": "12345.6789", "Ptr": "0x1234567", "When": "2024-02-29T12:34:56Z",
        "Span": "00:01:30", "Id": "00112233-4455-6677-8899-aabbccddeeff", "Text": "all types Ω 𝄞",
        "Colour": "200 (Blue)", "Bits": "9223372036854775809 (Low, High)", "Maybe": "77", "Nope": "null",
        "P": {"X": "1", "Y": "2", "Z": "3"}, "Boxed": "4711", "Tuple": {"Item1": "9", "Item2": "nine"},
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(field_values(named(&report["fields"], name)), *value, "{name}");
    }
    assert_eq!(named(&report["fields"], "Tuple")["type"], "System.ValueTuple<System.Int32, System.String>");
    let statics = json!({
        "StaticInt": "1515852340", "StaticText": "static text of AllTypes", "StaticLong": "72623859790382856",
        "StaticStruct": {"X": "7", "Y": "8", "Z": "9"}, "StaticDouble": "3.75",
    });
    for (name, value) in statics.as_object().unwrap() {
        assert_eq!(field_values(named(&report["statics"], name)), *value, "{name}");
    }
}

#[test]
fn statics_of_generic_types_by_instantiation() {
    let last = |address| object(address)["statics"][0].clone();
    // Box<int>.Last = 66 and Box<string>.Last, with the addresses that the program told.
    let (int, string) = (last(at::BOX_INT), last(at::BOX_STRING));
    assert_eq!((&int["value"], &int["address"]), (&json!("66"), &json!("0x7f8e3f224d20")));
    assert_eq!((&string["value"], &string["address"]), (&json!("last of string"), &json!("0x7f4e28001d78")));
}

#[test]
fn thread_statics_have_a_value_in_each_thread() {
    let report = object(at::THREAD_BAG);
    let number = named(&report["statics"], "Number")["threads"].as_array().unwrap().clone();
    // Parking.Park sets it to 1000 and the thread's managed id; 22 threads are parked.
    assert_eq!(number.len(), 22);
    for row in &number {
        let id = row["managed_id"].as_u64().unwrap();
        assert_eq!(row["value"], (1000 + id).to_string());
    }
    let current = named(&report["statics"], "Current")["threads"].as_array().unwrap().clone();
    let own = current.iter().find(|row| row["object"] == at::THREAD_BAG).unwrap();
    assert_eq!(own["managed_id"].to_string(), named(&report["fields"], "ManagedId")["value"]);
}

#[test]
fn arrays_with_dimensions_and_of_structs() {
    let grid = object(at::INT_3_4);
    assert_eq!(grid["dimensions"], json!([{"length": 3, "lower_bound": 0}, {"length": 4, "lower_bound": 0}]));
    let cell = |row: &Value| (row["indices"].clone(), row["value"].clone());
    assert_eq!(cell(&grid["elements"][0]), (json!([0, 0]), json!("1")));
    assert_eq!(cell(&grid["elements"][6]), (json!([1, 2]), json!("7")));
    assert_eq!(cell(&grid["elements"][11]), (json!([2, 3]), json!("12")));
    let strings = object(at::STRINGS_FROM_10);
    assert_eq!(strings["dimensions"], json!([{"length": 5, "lower_bound": 10}]));
    assert_eq!(cell(&strings["elements"][4]), (json!([14]), json!("null")));
    let pairs = object(at::PAIRS);
    assert_eq!(field_values(&pairs["elements"][0]), json!({"key": "1", "value": "one"}));
    let tuple = object(at::TUPLE);
    assert_eq!(field_values(&json!({"fields": tuple["fields"]})), json!({"Item1": "1", "Item2": "two", "Item3": "3"}));
}

#[test]
fn what_delegates_exceptions_tasks_and_collections_are_about() {
    let event = object(at::EVENT_HANDLER)["delegate"].clone();
    let calls = event["calls"].as_array().unwrap();
    // 500 subscribers.
    assert_eq!(calls.len() as u64 + event["more"].as_u64().unwrap(), 500);
    for call in calls {
        assert_eq!(call["method"], "Lab.Subscriber.OnChanged(System.Object, System.EventArgs)");
        assert_eq!(call["target_type"], "Lab.Subscriber");
    }
    // A static method and an instance's.
    let action = object(at::ACTION)["delegate"]["calls"].clone();
    let of = |i: usize| (action[i]["method"].clone(), action[i]["target_type"].clone());
    assert_eq!(of(0), (json!("Lab.Publisher.Raise()"), Value::Null));
    assert_eq!(of(1), (json!("Lab.Plain.Fire()"), json!("Lab.Plain")));

    let exception = object(at::EXCEPTION)["exception"].clone();
    assert_eq!(exception["message"], "outer stored");
    // COR_E_APPLICATION
    assert_eq!(exception["hresult"], "0x80131600");
    assert_eq!(exception["inner_type"], "System.Collections.Generic.KeyNotFoundException");
    let frames = exception["frames"].as_array().unwrap().iter().map(|f| f["method"].as_str().unwrap());
    let thrown = ["Lab.MixedScenario.Thrower2()", "Lab.MixedScenario.Thrower1()", "Lab.MixedScenario.Managed()"];
    assert_eq!(frames.collect::<Vec<_>>(), thrown);

    // It waits for a TaskCompletionSource that nobody sets.
    assert_eq!(object(at::TASK)["task_status"], "WaitingForActivation");

    let map = object(at::MAP)["collection"].clone();
    assert_eq!(map["count"], 5000);
    for (i, entry) in map["entries"].as_array().unwrap().iter().enumerate() {
        assert_eq!(entry["key"]["value"], (3 * i).to_string());
        assert_eq!(entry["value"]["value"], format!("map value {i}"));
    }
    let points = object(at::POINTS)["collection"].clone();
    assert_eq!(points["count"], 2);
    assert_eq!(field_values(&points["entries"][1]["value"]), json!({"X": "2", "Y": "2", "Z": "2"}));
}

/// .NET Core 3.1: each thread that parks has set a thread static to a string with its
/// name, and nothing else keeps that string.
#[test]
fn thread_statics_are_named_as_roots() {
    for name in ["dotnet31-kernel", "dotnet31-createdump", "dotnet31-gcore"] {
        let core = plain(name);
        let core = core.to_str().unwrap();
        let threads = truth(name).all["managed_threads"].as_object().unwrap().clone();
        let mut seen = 0;
        for (tid, thread) in threads.iter().filter(|(_, n)| *n != "main" && *n != "dead-joined") {
            let text = format!("tls-of-{}", thread.as_str().unwrap());
            let hits = run(["search", &text, "--encoding", "utf16", core, "--json"]).exits(0).json();
            for hit in hits["hits"].as_array().unwrap() {
                // String: MethodTable and length before the characters.
                let at =
                    u64::from_str_radix(hit["address"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap() - 12;
                let found = run(["gcroot", "--all", &format!("{at:#x}"), core, "--json"]).json();
                let fields: Vec<&str> = found["paths"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .flat_map(|p| p["chain"].as_array().unwrap())
                    .filter_map(|step| step["field"].as_str())
                    .collect();
                let ours = |f: &&&str| f.contains("(thread static ") && f.ends_with(&format!(" of thread {tid})"));
                seen += fields.iter().filter(ours).count();
            }
        }
        assert_eq!(seen, 9, "{name}");
    }
}

/// Found by the mutation run (COREMAP_SEED=40100336 of dotnet31-pending): types
/// whose names were lost had rows without a name.
#[test]
fn a_type_whose_name_is_lost_is_its_token() {
    let mut bytes = real::bytes("dotnet8-objects");
    let name = b"\0CacheEntry\0";
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, name).collect();
    assert!(!places.is_empty(), "no such name in the core");
    for at in places {
        bytes[at..at + name.len()].fill(0);
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    real::write_sparse(file.as_file_mut(), &bytes);
    let whole = run(["heapstat", "--json", plain("dotnet8-objects").to_str().unwrap()]).json();
    let lost = run(["heapstat", "--json", file.path().to_str().unwrap()]).json();
    let types = |answer: &Value| answer["types"].as_array().unwrap().clone();
    let table = types(&whole).into_iter().find(|t| t["type"] == "Lab.CacheEntry").unwrap()["method_table"].clone();
    let row = types(&lost).into_iter().find(|t| t["method_table"] == table).unwrap();
    assert_eq!(row["count"], 2000);
    let name = row["type"].as_str().unwrap();
    assert!(name.starts_with("lab.dll!0x0200"), "{name}");
    assert!(types(&lost).iter().all(|t| t["type"] != ""));
}
