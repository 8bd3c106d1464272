//! Single-file programs: what each mapping of the program's file shows, beside what `/proc/PID/maps` and the
//! program's file say, read by other means (truth.json).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;

fn number(v: &Value) -> u64 {
    let text = v.as_str().unwrap();
    u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

#[test]
fn modules_are_the_assemblies_that_are_mapped() {
    for name in names("bundle") {
        let truth = real::own_report(name);
        let program = truth["program"].as_str().unwrap();
        let core = real::plain(name);
        let info = run(["info", "--json", core.to_str().unwrap()]).is_sound().json();
        let prefix = format!("{program}/");
        let modules = info["modules"].as_array().unwrap().iter();
        let got: BTreeMap<u64, (&str, u64)> = modules
            .filter_map(|m| {
                let inside = m["path"].as_str()?.strip_prefix(&prefix)?;
                assert_eq!(m["kind"], "pe", "{inside}");
                Some((number(&m["base"]), (inside, m["size"].as_u64()?)))
            })
            .collect();
        let assemblies = truth["assemblies"].as_array().unwrap();
        let wanted: BTreeMap<u64, (&str, u64)> = assemblies
            .iter()
            .map(|a| (number(&a["base"]), (a["name"].as_str().unwrap(), a["size"].as_u64().unwrap())))
            .collect();
        assert!(wanted.len() > 100, "{name}: {}", wanted.len());
        assert_eq!(got, wanted, "{name}");
    }
}

#[test]
fn mappings_are_images_with_the_assemblys_name() {
    for name in names("bundle") {
        let truth = real::own_report(name);
        let core = real::plain(name);
        let regions = run(["regions", "--json", core.to_str().unwrap()]).is_sound().json();
        let regions = regions["regions"].as_array().unwrap();
        let of_program = |r: &&Value| r["file"].as_str() == truth["program"].as_str();
        let kinds: Vec<&Value> = regions.iter().filter(of_program).map(|r| &r["kind"]).collect();
        assert!(kinds.iter().all(|k| **k == "Image"), "{name}: {kinds:?}");
        let at: BTreeMap<u64, &Value> = regions.iter().map(|r| (number(&r["start"]), r)).collect();
        let parts = truth["parts"].as_array().unwrap();
        for one in truth["assemblies"].as_array().unwrap().iter().chain(parts) {
            let region = at[&number(&one["mapping"])];
            assert_eq!((&region["detail"], &region["confidence"]), (&one["name"], &"exact".into()), "{name}");
        }
    }
}

#[test]
fn without_the_program_names_are_those_of_assemblies_and_what_is_missing_is_told() {
    for name in names("bundle") {
        let core = real::plain(name);
        let out = run(["threads", "-v", core.to_str().unwrap()]);
        let text = &out.stdout;
        assert!(text.contains("System.Private.CoreLib.dll!0x02"), "{name}: {text}");
        assert!(!text.contains("module_0x"), "{name}: {text}");
        let told = "they are in the single-file program azmcp; give its folder with --symbols DIR";
        assert_eq!(out.stderr.matches(told).count(), 1, "{name}: {}", out.stderr);
    }
}
