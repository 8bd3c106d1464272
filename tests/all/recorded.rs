//! What case.json says of each recorded core: that it is true, and that the core has what its
//! purposes need.

use std::collections::BTreeSet;

use crate::support::cases::{PURPOSES, all};
use crate::support::real;
use crate::support::run::run;

#[test]
fn each_core_has_what_its_purposes_need_and_nothing_else() {
    assert!(all().len() >= 29, "{} cores", all().len());
    let readme = include_str!("../../testdata/README.md");
    let named: BTreeSet<&str> = readme.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    for case in all() {
        let name = &case.name;
        assert!(!case.made.is_empty() && !case.serves.is_empty(), "{name}");
        let core = format!("core.{}", case.ending());
        let mut files = BTreeSet::from(["case.json", &core]);
        for purpose in &case.serves {
            let known = PURPOSES.iter().find(|p| p.0 == purpose).unwrap_or_else(|| panic!("{name}: {purpose}?"));
            files.extend(known.1);
        }
        let there = std::fs::read_dir(&case.folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let there: BTreeSet<String> = there.collect();
        assert_eq!(there, files.into_iter().map(str::to_owned).collect(), "{name}");
        assert!(named.contains(name.as_str()), "{name}: not in testdata/README.md");
    }
}

#[test]
fn what_is_said_of_each_core_is_what_it_says_itself() {
    for case in all() {
        let name = &case.name;
        let info = run(["info", "--json", real::plain(name).to_str().unwrap()]).is_sound().json();
        let core = &info["core"];
        assert_eq!(core["arch"], *case.arch, "{name}");
        assert_eq!(core["producer"], *case.producer, "{name}");
        let os = info["process"]["os"].as_array().unwrap();
        if let Some(libc) = os.iter().find(|o| o["what"] == "libc") {
            // With its version, where the core has the text of it.
            let told = libc["value"].as_str().unwrap().to_lowercase();
            assert!(case.libc.as_ref().is_some_and(|said| told.contains(said)), "{name}: {told}");
        }
        // Not every runtime is one that coremap knows.
        let known = core["runtimes"].as_array().unwrap();
        let most = if case.serves.iter().any(|purpose| purpose == "two-runtimes") { 2 } else { 1 };
        assert!(known.len() <= most && (!known.is_empty() || !case.is_dotnet()), "{name}: {known:?}");
        for (known, said) in known.iter().zip(&case.runtime) {
            assert_eq!(
                (&known["name"], &known["version"]),
                (&said.name.as_str().into(), &said.version.as_str().into()),
                "{name}"
            );
            assert_eq!(known["gc"].as_str(), said.gc.as_deref(), "{name}");
        }
        assert!(known.is_empty() || case.runtime.is_some(), "{name}: {known:?}");
        assert!(case.shrunk_for.as_ref().is_none_or(|commands| !commands.is_empty()), "{name}");
    }
}
