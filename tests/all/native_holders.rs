//! Holders of malloc blocks, against what the programs reported of their blocks.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::run::run;
use crate::support::{live, real};

/// Programs with glibc's malloc, musl's and jemalloc, which lose blocks and keep others.
const LEAKS: [&str; 3] = ["native-leaks", "musl-leaks", "jemalloc-leaks"];

fn count(truth: &Value, what: &[&str]) -> u64 {
    let blocks = truth["blocks"].as_array().unwrap().iter();
    blocks.filter(|block| what.contains(&block["what"].as_str().unwrap())).count() as u64
}

fn sum(rows: &[Value], lost: bool) -> u64 {
    rows.iter().filter(|row| row["lost"] == lost).map(|row| row["blocks"].as_u64().unwrap()).sum()
}

#[test]
fn a_lost_block_is_lost_and_a_kept_one_has_a_holder() {
    for name in LEAKS {
        let core = real::plain(name);
        let core = core.to_str().unwrap();
        let truth = real::own_report(name);
        let lost = count(&truth, &["lost", "lost, held by a lost one"]);
        let holders = run(["holders", "--native", "--json", core]).exits(0).json();
        let rows = holders["native"].as_array().unwrap();
        assert_eq!(sum(rows, true), lost, "{name}");
        assert!(sum(rows, false) >= count(&truth, &["kept"]), "{name}");
        assert!(rows.iter().all(|row| row["lost"] == false || row["holder"].is_null()), "{name}");
        // Retained bytes of blocks that roots reach, and of those that none reaches, are all used bytes.
        let retained = run(["retained", "--json", core]).exits(0).json();
        assert_eq!(retained["unreachable"]["objects"], lost, "{name}");
        let bytes = |key: &str| retained[key]["size"].as_u64().unwrap();
        assert_eq!(holders["used"], bytes("live") + bytes("unreachable"), "{name}");
        // A single block: the address that the program reported.
        for block in truth["blocks"].as_array().unwrap().iter().step_by(19) {
            let (address, what) = (block["address"].as_str().unwrap(), block["what"].as_str().unwrap());
            let found = run(["whatis", "--json", address, core]).json();
            let owner = &found["block"]["owner"];
            assert_eq!(
                (&owner["lost"], owner["holder"].is_null()),
                (&(what != "kept").into(), what != "kept"),
                "{name}"
            );
        }
    }
}

/// A process that is killed when this value is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_scrubbed_core_has_the_names_of_the_classes() {
    let Some((folder, program)) = live::compile("classes.c") else { return };
    let mut child = Killed(Command::new(program).env_clear().stdout(Stdio::piped()).spawn().unwrap());
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let [core, scrubbed] = ["core", "scrubbed"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    run(["dump", "--pid", &child.0.id().to_string(), "-o", &core]).exits(0);
    run(["shrink", "--scrub", "-o", &scrubbed, &core]).exits(0);
    for core in [core, scrubbed] {
        let holders = run(["holders", "--native", &core]);
        let text = &holders.exits(0).stdout;
        assert!(text.contains("60 office::LostDesk  target .data"), "{core}: {text}");
    }
}
