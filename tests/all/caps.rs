//! Caps that cut an answer say so in it.

use crate::support::builder::{CoreBuilder, Load, R, W, small_core};
use crate::support::notes;
use crate::support::run::{bounded, run};
use coremap::addr::{Addr, AddrRange};
use coremap::limits;
use coremap::map::{AddressMap, Claim, Claims, Confidence, Kind, Owner, audit};
use coremap::process::{Options, Process};
use coremap::progress::Progress;

/// Warnings of `limit` that a command gives on a core.
fn limits_told(core: &tempfile::NamedTempFile, args: &[&str]) -> Vec<String> {
    let path = core.path().to_str().unwrap();
    let mut all: Vec<&str> = args.to_vec();
    all.extend(["--json", path]);
    let out = run(all);
    let json = out.is_sound().json();
    let warnings = json["warnings"].as_array().unwrap().iter();
    warnings.filter(|w| w["code"] == "limit").map(|w| w["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn claims_that_are_not_compared_are_counted() {
    let core = small_core().write();
    let process = Process::open(core.path(), &Options::default(), &Progress::silent()).unwrap();
    let left_out = |n: usize| {
        let mut claims = Claims::default();
        for i in 0..n as u64 {
            // Ends differ, so that no two claims are equal.
            claims.add(Claim {
                range: AddrRange::sized(Addr::new(0x60_0000), 0x2000 + i),
                kind: Kind::GCHeap,
                confidence: Confidence::Exact,
                owner: Owner::None,
                detail: "x".into(),
                evidence: "x".into(),
            });
        }
        audit::conflicts(&AddressMap::resolve(process.facts(), process.base().clone(), claims)).1
    };
    assert_eq!(left_out(limits::MAX_OPEN_CLAIMS), 0);
    assert_eq!(left_out(limits::MAX_OPEN_CLAIMS + 50), 50);
}

/// A core of `n` threads whose control blocks are zeros.
fn threads(n: u32) -> tempfile::NamedTempFile {
    let mut core = CoreBuilder::x86_64();
    for i in 0..n {
        let at = 0x10_0000 + u64::from(i) * 0x1000;
        core = core.note(notes::prstatus_x86_64(i + 1, 0, at + 0x800, 0, at + 0x900));
    }
    let bytes = vec![0; 0x1000 * n as usize];
    core.load(Load::at(0x10_0000).flags(R | W).bytes(bytes)).write()
}

#[test]
fn threads_that_were_not_asked_for_their_stacks_are_told() {
    let most = u32::try_from(limits::MAX_VOTERS).unwrap();
    assert!(limits_told(&threads(most), &["stacks"]).is_empty());
    let told = limits_told(&threads(most + 1), &["stacks"]);
    assert!(told.iter().any(|t| t.contains("first 256 of 257 threads")), "{told:?}");
}

#[test]
fn whatis_tells_that_it_shows_fewer_bytes() {
    let core = small_core().write();
    let at = "0x600000";
    assert!(limits_told(&core, &["whatis", "--bytes", "16", at]).is_empty());
    let more = (limits::MAX_SHOWN_BYTES + 1).to_string();
    assert_eq!(limits_told(&core, &["whatis", "--bytes", &more, at]).len(), 1);
}

/// Found by the mutation run (COREMAP_SEED=43101167 of dotnet31-createdump): 64
/// headers of notes that each claimed the whole file made a core of 1 GB, held in
/// memory before it was written.
#[test]
fn shrink_writes_no_more_notes_than_a_process_has() {
    const HEADERS: usize = 128;
    let core = small_core().load(Load::at(0x100_0000).flags(R | W).bytes(vec![0xff; 8 << 20]));
    let written = |core: &CoreBuilder| {
        let (core, folder) = (core.write(), tempfile::tempdir().unwrap());
        let out = folder.path().join("small");
        let run = bounded(&["shrink", "-v", "-o", out.to_str().unwrap()], core.path()).go();
        run.is_sound();
        (run, std::fs::metadata(&out).unwrap().len())
    };
    let (run, honest) = written(&core);
    assert!(honest < 1 << 20 && !run.stderr.contains("notes"), "{honest} bytes, {}", run.stderr);
    let (run, most) = written(&core.note_headers(HEADERS).note_size(u64::MAX / 2));
    assert!(most <= limits::MAX_SHRUNK_NOTES as u64 + (1 << 20), "{most} bytes");
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stderr.contains("some are left out"), "{}", run.stderr);
}
