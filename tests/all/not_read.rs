//! Commands about what only .NET has, on processes without .NET: they say what they do not read, and never that there is
//! none. What each process has is known from its program (testdata/sources).

use crate::support::real;
use crate::support::run::run;

/// Commands that only .NET has.
const OF_DOTNET: [&str; 5] = ["exceptions", "finalizers", "syncblocks", "handles", "heap"];

/// Java and Python, with what their runtime is called.
const OTHERS: [(&str, &str); 3] =
    [("java17-offheap", "HotSpot"), ("java17-threads", "HotSpot"), ("python311", "CPython")];

#[test]
fn what_is_not_read_is_not_none() {
    for (core, runtime) in OTHERS {
        let path = real::plain(core);
        for command in OF_DOTNET {
            let out = run([command, path.to_str().unwrap()]);
            let text = &out.is_sound().stdout;
            assert!(
                text.contains(&format!("of {runtime}")) && text.contains("are not read"),
                "{core}: {command}: {text}"
            );
            for none in ["no exceptions", "0 objects", "no sync blocks", "no handles", "no .NET"] {
                assert!(!text.contains(none), "{core}: {command}: {text}");
            }
            let json = run([command, "--json", path.to_str().unwrap()]).is_sound().json();
            let unread = json["unread"][0].as_str().unwrap();
            assert!(unread.starts_with(runtime), "{core}: {command}: {unread}");
        }
    }
    let java = real::plain("java17-offheap");
    let text = run(["async", java.to_str().unwrap()]).is_sound().stdout.clone();
    assert!(text.contains("async methods of HotSpot") && text.contains("are not read"), "{text}");
}

/// A core that lacks most of the heap: an empty list says that memory is missing. The threads' own exceptions are
/// listed, with a warning on the heap.
#[test]
fn a_list_from_missing_memory_is_not_none() {
    let path = real::plain("dotnet10-kernel-threads");
    for command in ["exceptions", "finalizers", "syncblocks", "handles", "async"] {
        let out = run([command, path.to_str().unwrap()]);
        let text = &out.is_sound().stdout;
        let is_said = text.contains("not all memory could be read") || text.contains("are not read");
        let of_threads = command == "exceptions" && text.contains("inner lab failure");
        let warned = || {
            let json = run([command, "--json", path.to_str().unwrap()]).json();
            json["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "heap-walk")
        };
        assert!(is_said || of_threads && warned(), "{command}: {text}");
    }
}

#[test]
fn a_runtime_that_is_not_read_is_named() {
    let answer = |core: &str| run(["exceptions", real::plain(core).to_str().unwrap()]).stdout.clone();
    let text = answer("foreign-php");
    assert!(text.contains("a heap of PHP"), "{text}");
    // Go is read, but it has no exceptions as .NET does.
    let text = answer("go-kernel");
    assert!(text.contains("exceptions of Go 1.19.8 are not read"), "{text}");
}
