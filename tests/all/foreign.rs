//! Allocators and runtimes that are recognised and not walked: the bytes that they themselves say they have.

use coremap::map::Confidence;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;
use serde_json::Value;

use crate::support::cases::names;
use crate::support::real;

#[test]
fn as_many_bytes_as_they_say_and_nothing_twice() {
    for name in names("allocators") {
        let truth: Value = serde_json::from_str(&real::beside(name, "truth.json")).unwrap();
        let process = Process::open(&real::plain(name), &Options::default(), &Progress::silent()).unwrap();
        let session = Session::new(&process);
        let foreign = session.map().regions.iter().filter(|r| r.kind.name() == truth["kind"]);
        let (mut bytes, mut pieces) = (0, 0);
        for region in foreign {
            let detail = truth["detail"].as_str().unwrap();
            assert!(region.detail.starts_with(detail), "{name}: {} {}", region.range, region.detail);
            assert_eq!(region.confidence, Confidence::Derived, "{name}: {}", region.detail);
            bytes += region.range.len();
            pieces += 1;
        }
        assert!(pieces > 1, "{name}");
        assert_eq!(bytes, truth["bytes"].as_u64().unwrap(), "{name}, by {}", truth["said_by"]);
    }
}
