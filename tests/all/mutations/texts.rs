//! Texts with figures: smaps that was saved with a core, and recordings. They may contain any number, and sums of several
//! such numbers may exceed every type.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use coremap::commands;
use coremap::commands::trend::Source;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::render::{self, DrawOptions, Render};
use coremap::report::Part;
use coremap::series::{Moment, Recording, RecordingWriter, read_recording};
use coremap::session::Session;

use super::commands::examine_with;
use super::damage::odd;
use crate::support::cases::serving;
use crate::support::{Rng, number, real};

/// Default number of texts of each kind (`COREMAP_TEXTS` changes it).
const TEXTS: u64 = 60;

/// The text with some of its numbers replaced, or all of the same length.
fn damaged(text: &[u8], rng: &mut Rng) -> Vec<u8> {
    let digits = |at: usize| text[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let begins = |at: &usize| digits(*at) > 0 && (*at == 0 || !text[at - 1].is_ascii_alphanumeric());
    let numbers: Vec<usize> = (0..text.len()).filter(begins).collect();
    let mut chosen: Vec<usize> =
        (0..1 + rng.below(8)).map(|_| numbers[rng.below(numbers.len() as u64) as usize]).collect();
    if rng.below(3) == 0 {
        // The same key in many places: every mapping has the same absurd figure.
        let line = |at: usize| text[..at].rsplit(|b| *b == b'\n' || *b == b',').next().unwrap().to_vec();
        let key = line(chosen[0]);
        chosen.extend(numbers.iter().filter(|at| line(**at) == key));
    }
    chosen.sort_unstable();
    chosen.dedup();
    let value = odd(rng) >> (10 * rng.below(2));
    let (mut out, mut from) = (Vec::new(), 0);
    for at in chosen {
        out.extend_from_slice(&text[from..at]);
        out.extend(value.to_string().into_bytes());
        from = at + digits(at);
    }
    out.extend_from_slice(&text[from..]);
    out
}

fn tried(label: &str, run: impl FnOnce() -> Result<(), String>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(format!("{label}: {why}")),
        Err(_) => Some(format!("{label}: panicked, see above")),
    }
}

#[test]
fn smaps_with_any_figures() {
    let (count, first) = (number("COREMAP_TEXTS", TEXTS), number("COREMAP_SEED", 0x00c0_ffee));
    let mut failures = Vec::new();
    for case in serving("resident") {
        let text = std::fs::read(case.folder.join("smaps.txt")).unwrap();
        let core = real::plain(&case.name);
        for seed in first..first + count {
            let mut rng = Rng(seed);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), damaged(&text, &mut rng)).unwrap();
            let options = Options { smaps: Some(file.path().to_owned()), ..Options::default() };
            let label = format!("{}: COREMAP_SEED={seed}", case.name);
            let takes = |rng: &mut Rng, _| rng.below(4) == 0;
            failures.extend(tried(&label, || examine_with(&core, &options, &mut rng, &[], takes)));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A recording with several samples of one core, as text.
fn recording(core: &Path) -> Vec<u8> {
    let silent = Progress::silent();
    let process = Process::open(core, &Options::default(), &silent).unwrap();
    let session = Session::new(&process);
    let subject = commands::record::subject(&session);
    let moment = commands::record::moment(&session, &[Part::Types, Part::Malloc], &silent);
    let recording = Recording { subject, coremap: "0".into(), every: None, parts: Vec::new(), moments: Vec::new() };
    let mut text = Vec::new();
    let mut writer = RecordingWriter::begin(&mut text, &recording).unwrap();
    for look in 0..8 {
        writer.add(Moment { look, seconds: look as f64, ..moment.clone() }).unwrap();
    }
    drop(writer);
    text
}

#[test]
fn recordings_with_any_figures() {
    let (count, first) = (number("COREMAP_TEXTS", TEXTS), number("COREMAP_SEED", 0x00c0_ffee));
    let mut failures = Vec::new();
    for name in ["native-leaks", "dotnet10-kernel-shrunk", "python311"] {
        let text = recording(&real::plain(name));
        for seed in first..first + count {
            let mut rng = Rng(seed);
            let bytes = damaged(&text, &mut rng);
            failures.extend(tried(&format!("{name}: COREMAP_SEED={seed}"), || {
                let Ok(read) = read_recording(bytes.as_slice()) else { return Ok(()) };
                let source = Source { path: "damaged".into(), is_recording: true, recording: read.recording };
                let Ok(report) = commands::trend(&[source], None) else { return Ok(()) };
                let draw = DrawOptions { width: Some(80), color: false, bars: true };
                render::write(&report.document(), draw, &mut Vec::new()).map_err(|e| e.to_string())?;
                report.csv(&mut Vec::new()).map_err(|e| e.to_string())
            }));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
