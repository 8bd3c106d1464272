//! What CPython's structures say is not believed blindly: lists that run in rings, sizes that cannot be. Each command ends
//! in its time and memory, tells what is broken, and what was not damaged stays as it was.

use std::time::Duration;

use coremap::addr::Addr;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::runtimes::cpython::CPython;
use coremap::runtimes::cpython::runtime::Runtime;
use serde_json::Value;

use crate::support::real;
use crate::support::run::bounded;

/// One with links on the C stack (`_PyCFrame`), and one whose interpreter leads to its arenas.
const CORES: [&str; 2] = ["python311", "python314"];

/// Processor time for one command: a hundred times what the whole core takes.
const MOST: Duration = Duration::from_secs(20);

/// Exit status of an answer that is not whole, and of one that has nothing to tell.
const PARTIAL: i32 = 4;
const NOTHING: i32 = 1;

/// Commands that look at all objects: for what is damaged in many ways.
const OF_OBJECTS: &[&[&str]] = &[&["heapstat"], &["triage"]];

/// All commands that read Python's structures and need no address.
const COMMANDS: &[&[&str]] = &[
    &["summary"],
    &["heapstat"],
    &["malloc"],
    &["threads"],
    &["async"],
    &["retained"],
    &["triage"],
    &["holders"],
    &["objects", "--type", "__main__"],
];

/// Where things are in a core that is whole.
struct Places<'p> {
    name: &'static str,
    python: CPython<'p>,
    truth: Value,
}

impl<'p> Places<'p> {
    fn runtime(&self) -> &Runtime<'p> {
        self.python.runtime()
    }

    fn told(&self, key: &str) -> Addr {
        let at = &self.truth[key];
        Addr::new(at.as_u64().or_else(|| at["object"].as_u64()).unwrap())
    }

    fn buffer(&self, name: &str) -> Addr {
        let all = self.truth["buffers"].as_array().unwrap();
        Addr::new(all.iter().find(|b| b["name"] == name).unwrap()["object"].as_u64().unwrap())
    }

    fn field(&self, kind: &str, at: Addr, field: &str) -> Addr {
        self.runtime().view(kind, at).addr_of(field).unwrap()
    }

    fn ptr(&self, kind: &str, at: Addr, field: &str) -> Addr {
        self.runtime().view(kind, at).ptr(field).unwrap()
    }

    fn interpreter(&self) -> Addr {
        self.runtime().interpreters[0]
    }

    fn threads(&self) -> Vec<Addr> {
        self.runtime().thread_states(self.interpreter()).0
    }

    /// Frames of the thread with most of them in one piece, the latest first.
    fn frames(&self) -> Vec<Addr> {
        let of = |thread: &Addr| {
            let view = self.runtime().view("PyThreadState", *thread);
            let first = match view.has("current_frame") {
                true => view.ptr("current_frame").unwrap(),
                false => self.ptr("CFrame", view.ptr("cframe").unwrap(), "current_frame"),
            };
            let mut out = vec![first];
            while let Ok(next) = self.runtime().view("_PyInterpreterFrame", out[out.len() - 1]).ptr("previous")
                && !next.is_null()
            {
                out.push(next);
            }
            out
        };
        self.threads().iter().map(of).max_by_key(Vec::len).unwrap()
    }

    fn first_ring(&self) -> Addr {
        let gc = self.field("PyInterpreterState", self.interpreter(), "gc");
        let head = self.field("_gc_runtime_state", gc, "generations");
        let leads_back = |head: &Addr| {
            let next = self.runtime().view("PyGC_Head", *head).ptr("_gc_next");
            next.is_ok_and(|next| {
                self.runtime().view("PyGC_Head", next).u64("_gc_prev").is_ok_and(|back| back & !3 == head.get())
            })
        };
        // 3.13.5 and later have them beside.
        let near = [0, 4, 8].into_iter().flat_map(|by| [head.saturating_add(by), head.saturating_sub(by)]);
        near.into_iter().find(leads_back).unwrap()
    }
}

fn with<R>(name: &'static str, body: impl FnOnce(&Places<'_>) -> R) -> R {
    let process = Process::open(&real::plain(name), &Options::default(), &Progress::silent()).unwrap();
    let python = CPython::find(&process).pop().unwrap();
    body(&Places { name, python, truth: real::own_report(name) })
}

/// A damaged core.
struct Damaged {
    what: String,
    file: tempfile::NamedTempFile,
}

impl Damaged {
    fn new(places: &Places<'_>, what: &str, words: &[(Addr, u64)]) -> Damaged {
        let words: Vec<(u64, u64)> = words.iter().map(|(at, word)| (at.get(), *word)).collect();
        Damaged { what: format!("{}: {what}", places.name), file: real::patched(places.name, &words) }
    }

    #[track_caller]
    fn ask(&self, args: &[&str]) -> Value {
        println!("{}: {args:?}", self.what);
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let answer = bounded(&args, self.file.path()).within(MOST).go();
        assert!(
            matches!(answer.is_sound().code, Some(0 | NOTHING | PARTIAL)),
            "{}: {args:?}: {}",
            self.what,
            answer.stderr
        );
        answer.json()
    }

    /// Every command ends, and these words are among the warnings of some.
    #[track_caller]
    fn ends_and_says(&self, words: &str) {
        let mut said = Vec::new();
        for command in COMMANDS {
            let answer = self.ask(command);
            let warnings = answer["warnings"].as_array().unwrap().iter();
            said.extend(warnings.map(|w| format!("{}: {}", command[0], w["message"].as_str().unwrap())));
        }
        said.retain(|line| !line.contains("the code of these files is not in the core"));
        println!("{}: {said:#?}", self.what);
        assert!(said.iter().any(|line| line.contains(words)), "{}: not said: {words}", self.what);
    }

    /// Every command ends, and there are as many objects of a type as before.
    #[track_caller]
    fn keeps(&self, kind: &str, count: u64) {
        let answer = self.ask(&["heapstat"]);
        let types = answer["types"].as_array().unwrap();
        let found = types.iter().find(|t| t["type"] == kind).map_or(0, |t| t["count"].as_u64().unwrap());
        assert_eq!(found, count, "{}: {kind}", self.what);
    }
}

#[test]
fn frames_in_a_ring_end() {
    for name in CORES {
        with(name, |places| {
            let frames = places.frames();
            assert!(frames.len() > 5, "{name}");
            let previous = |i: usize| places.field("_PyInterpreterFrame", frames[i], "previous");
            for (what, words) in [
                ("a frame that leads to itself", vec![(previous(3), frames[3].get())]),
                ("one that leads back", vec![(previous(4), frames[1].get())]),
                ("one in another thread's list", vec![(previous(2), places.threads()[0].get())]),
                ("one at the end of the address space", vec![(previous(2), u64::MAX - 7)]),
            ] {
                let damaged = Damaged::new(places, what, &words);
                let answer = damaged.ask(&["threads"]);
                let rows = answer["threads"].as_array().unwrap();
                let most = rows.iter().map(|row| row["frames"].as_array().unwrap().len()).max().unwrap();
                assert!(most < 40, "{what}: {most} frames");
                assert_eq!(rows.len(), places.truth["threads"].as_array().unwrap().len());
                damaged.ask(&["retained"]);
                damaged.ask(&["async"]);
            }
            Damaged::new(places, "a ring", &[(previous(4), frames[1].get())]).ends_and_says("frames has a cycle");
        });
    }
}

#[test]
fn chunks_of_frames_are_no_larger_than_their_mapping() {
    for name in CORES {
        with(name, |places| {
            let chunk = places.ptr("PyThreadState", places.threads()[0], "datastack_chunk");
            let place = |field: &str| places.field("_PyStackChunk", chunk, field);
            let frames = |damaged: &Damaged| {
                let answer = damaged.ask(&["summary"]);
                let kinds = answer["kinds"].as_array().unwrap();
                kinds.iter().filter(|k| k["kind"] == "PyFrames").map(|k| k["size"].as_u64().unwrap()).sum::<u64>()
            };
            let whole = frames(&Damaged::new(places, "whole", &[]));
            assert_eq!(whole, places.threads().len() as u64 * (16 << 10));
            for size in [1 << 32, 1 << 30, 1 << 24, u64::MAX, 1 << 63, 0, 8, 1 << 12, 40_000] {
                let damaged = Damaged::new(places, &format!("a chunk of {size:#x} bytes"), &[(place("size"), size)]);
                assert_eq!(frames(&damaged), whole - (16 << 10), "{}", damaged.what);
            }
            let damaged = Damaged::new(places, "a chunk of 4 GiB", &[(place("size"), 1 << 32)]);
            damaged.ends_and_says("a data stack chunk with an invalid size");
            let damaged = Damaged::new(places, "chunks in a ring", &[(place("previous"), chunk.get())]);
            damaged.ends_and_says("data stack chunks has a cycle");
            assert_eq!(frames(&damaged), whole);
        });
    }
}

#[test]
fn thread_states_in_a_ring_end() {
    for name in CORES {
        with(name, |places| {
            let threads = places.threads();
            let next = |i: usize| places.field("PyThreadState", threads[i], "next");
            let damaged = Damaged::new(places, "thread states in a ring", &[(next(2), threads[0].get())]);
            damaged.ends_and_says("thread states");
            let damaged = Damaged::new(places, "one that leads nowhere", &[(next(2), 0x10)]);
            damaged.ends_and_says("thread states");
        });
    }
}

#[test]
fn rings_of_the_collector_that_do_not_come_back_end() {
    for name in CORES {
        with(name, |places| {
            let head = places.first_ring();
            let ring = |at: Addr, field: &str| places.field("PyGC_Head", at, field);
            // Its third object leads to the first one, past the head.
            let step = |at: Addr| Addr::new(places.ptr("PyGC_Head", at, "_gc_next").get() & !3);
            let first = step(head);
            let second = step(first);
            let third = step(second);
            let damaged = Damaged::new(places, "a ring without its head", &[(ring(third, "_gc_next"), first.get())]);
            damaged.ends_and_says("of the collector");
            // What lies in the arenas is found without.
            damaged.keeps("__main__.Point", 1234);
            let damaged = Damaged::new(places, "a ring that breaks off", &[(ring(second, "_gc_next"), 0x18)]);
            damaged.ends_and_says("of the collector");
            damaged.keeps("__main__.Point", 1234);
            let damaged = Damaged::new(places, "no ring", &[(ring(head, "_gc_next"), 0x18)]);
            damaged.ends_and_says("collector");
            damaged.keeps("__main__.Point", 1234);
        });
    }
}

#[test]
fn lists_of_free_blocks_and_pools_are_checked() {
    for name in CORES {
        with(name, |places| {
            let arenas = &places.python.arenas()[0];
            // A pool in use with a free block that leads to another one.
            let pools = arenas.all.iter().flat_map(|arena| {
                (0..4).map(|i| arena.first_pool.saturating_add(i * arenas.pool)).filter(|at| *at < arena.untouched)
            });
            let free = |pool: &Addr| places.runtime().view("pool_header", *pool).ptr("freeblock").unwrap();
            let next = |block: Addr| places.runtime().view("PyObject", block).u64("ob_refcnt").unwrap();
            let inside = |pool: &Addr, at: Addr| at.checked_since(*pool).is_some_and(|by| by < arenas.pool);
            let pool = pools.into_iter().find(|pool| {
                let first = free(pool);
                inside(pool, first) && inside(pool, Addr::new(next(first)))
            });
            let pool = pool.expect("a pool with two free blocks");
            let first = free(&pool);
            let head = places.field("pool_header", pool, "freeblock");
            for (what, words) in [
                ("a free block that leads to itself", vec![(first, first.get())]),
                ("one that leads out of the pool", vec![(first, first.get() + arenas.pool)]),
                ("one between two blocks", vec![(first, first.get() + 8)]),
                ("a list that begins in the header", vec![(head, pool.get())]),
                ("a list that begins nowhere", vec![(head, u64::MAX - 15)]),
            ] {
                let damaged = Damaged::new(places, what, &words);
                let blocks = &damaged.ask(&["malloc"])["pymalloc"];
                assert_eq!(blocks["lost_pools"], 1, "{}: {blocks}", damaged.what);
                damaged.keeps("__main__.Node", 77);
            }
            // A class of blocks that are larger than the pool; more in use than there is room for.
            for (field, value) in
                [("szidx", u64::from(u32::MAX)), ("ref", u64::from(u32::MAX)), ("nextoffset", u64::MAX)]
            {
                let damaged = Damaged::new(places, field, &[(places.field("pool_header", pool, field), value)]);
                let blocks = &damaged.ask(&["malloc"])["pymalloc"];
                assert_eq!(blocks["lost_pools"], 1, "{}: {blocks}", damaged.what);
                OF_OBJECTS.iter().for_each(|command| drop(damaged.ask(command)));
            }
        });
    }
}

#[test]
fn arenas_that_repeat_or_overlap_are_not_counted_twice() {
    for name in CORES {
        with(name, |places| {
            let arenas = &places.python.arenas()[0];
            let size = places.runtime().layout.size("arena_object").unwrap();
            let entry = |index: u64| arenas.array.saturating_add(index * size);
            let whole: u64 = arenas.all.len() as u64 * arenas.arena;
            let of = |index: u64| arenas.all.iter().find(|a| a.index == index).unwrap();
            let address = |index: u64| places.field("arena_object", entry(index), "address");
            for (what, words) in [
                ("the same twice", vec![(address(1), of(0).range.start.get())]),
                ("two that overlap", vec![(address(1), of(0).range.start.get() + 0x4000)]),
                ("one where nothing is", vec![(address(1), 0x10_0000)]),
                ("one at the end of the address space", vec![(address(1), u64::MAX << 14)]),
                ("free pools elsewhere", vec![(places.field("arena_object", entry(1), "freepools"), 0x10)]),
            ] {
                let damaged = Damaged::new(places, what, &words);
                let answer = damaged.ask(&["summary"]);
                let kinds = answer["kinds"].as_array().unwrap();
                let of = |k: &&Value| k["kind"] == "PyMalloc";
                let claimed = kinds.iter().filter(of).map(|k| k["size"].as_u64().unwrap()).sum::<u64>();
                assert!(claimed <= whole, "{}: {claimed}", damaged.what);
                for command in OF_OBJECTS {
                    println!("   {}", damaged.ask(command)["warnings"]);
                }
            }
        });
    }
}

#[test]
fn containers_of_absurd_sizes_end() {
    for name in CORES {
        with(name, |places| {
            let cache = places.told("cache");
            let keys = places.ptr("PyDictObject", cache, "ma_keys");
            let key = |field: &str| places.field("PyDictKeysObject", keys, field);
            let start = |field: &str| Addr::new(key(field).get() & !7);
            let text = places.buffer("LETTERS");
            let array = places.buffer("BUFFER");
            let sets = Damaged::new(places, "whole", &[]).ask(&["objects", "--type", "^set$", "--top", "1"]);
            let set = Addr::new(real::hex(&sets["objects"][0]["address"]));
            let mask = places.field("PySetObject", set, "mask");
            let order_type = places.ptr("PyObject", places.told("order"), "ob_type");
            let point_type = places.ptr("PyObject", places.told("point"), "ob_type");
            let of_type = |field: &str| places.field("PyTypeObject", order_type, field);
            let length = |of: Addr| places.field("PyASCIIObject", of, "length");
            let items = |of: Addr| places.field("PyVarObject", of, "ob_size");
            for (what, object, words) in [
                ("a dict of 2^62 entries", cache, vec![(key("dk_nentries"), 1 << 62)]),
                ("a dict with room for 2^64", cache, vec![(key("dk_usable"), u64::MAX)]),
                ("a dict with an index of 2^255", cache, vec![(start("dk_log2_size"), u64::MAX)]),
                (
                    "a dict with an index of 2^47",
                    cache,
                    vec![(start("dk_log2_size"), 0x2f2f), (key("dk_nentries"), 1 << 40)],
                ),
                (
                    "a dict whose keys are itself",
                    cache,
                    vec![(places.field("PyDictObject", cache, "ma_keys"), cache.get())],
                ),
                ("a dict of more than it has", cache, vec![(places.field("PyDictObject", cache, "ma_used"), u64::MAX)]),
                ("a set of 2^63 slots", set, vec![(mask, i64::MAX as u64)]),
                ("a set of 2^40 slots", set, vec![(mask, (1 << 40) - 1)]),
                ("a set of 2^64 slots", set, vec![(mask, u64::MAX)]),
                ("a str of 2^62 characters", text, vec![(length(text), 1 << 62)]),
                ("a str of -1 characters", text, vec![(length(text), u64::MAX)]),
                ("a bytearray of 2^63 bytes", array, vec![(items(array), i64::MAX as u64)]),
                ("a bytearray of -1 bytes", array, vec![(items(array), u64::MAX)]),
                (
                    "a type whose type is a ring",
                    places.told("order"),
                    vec![
                        (places.field("PyObject", order_type, "ob_type"), point_type.get()),
                        (places.field("PyObject", point_type, "ob_type"), order_type.get()),
                    ],
                ),
                ("a type that is its own base", places.told("order"), vec![(of_type("tp_base"), order_type.get())]),
                (
                    "a type of instances of 2^63 bytes",
                    places.told("order"),
                    vec![(of_type("tp_basicsize"), i64::MAX as u64)],
                ),
                (
                    "a type whose items have 2^63 bytes",
                    places.told("order"),
                    vec![(of_type("tp_itemsize"), i64::MAX as u64)],
                ),
                ("a type whose name is nowhere", places.told("order"), vec![(of_type("tp_name"), 0x10)]),
                ("a type whose dict is itself", places.told("order"), vec![(of_type("tp_dict"), order_type.get())]),
            ] {
                let damaged = Damaged::new(places, what, &words);
                let at = object.to_string();
                let at = at.as_str();
                for command in OF_OBJECTS.iter().copied().chain([&["refs", at][..], &["gcroot", at]]) {
                    damaged.ask(command);
                }
                // What is none any more is said to be none.
                let answer = bounded(&["object", at], damaged.file.path()).within(MOST).go();
                assert!(answer.is_sound().code <= Some(PARTIAL), "{}: {}", damaged.what, answer.stderr);
                damaged.keeps("__main__.Node", 77);
            }
        });
    }
}

#[test]
fn deques_in_a_ring_end() {
    for name in CORES {
        with(name, |places| {
            let whole = Damaged::new(places, "whole", &[]);
            let deques = whole.ask(&["objects", "--type", r"^collections\.deque$", "--top", "0"]);
            let deques: Vec<Addr> =
                deques["objects"].as_array().unwrap().iter().map(|o| Addr::new(real::hex(&o["address"]))).collect();
            let left = |deque: Addr| places.ptr("dequeobject", deque, "leftblock");
            let right = |deque: Addr| places.field("dequeobject", deque, "rightblock");
            let mut words = Vec::new();
            // All lead on for ever, and say that they have more than can be.
            for &deque in &deques {
                let block = left(deque);
                words.push((places.field("block", block, "rightlink"), block.get()));
                words.push((places.field("PyVarObject", deque, "ob_size"), i64::MAX as u64));
                words.push((right(deque), 0x10));
            }
            assert!(!words.is_empty(), "{name}: no deque");
            let damaged = Damaged::new(places, "deques in a ring", &words);
            COMMANDS.iter().for_each(|command| drop(damaged.ask(command)));
            let answer = damaged.ask(&["object", &deques[0].to_string()]);
            assert_eq!(answer["type"], "collections.deque", "{name}");
            damaged.keeps("collections.deque", deques.len() as u64);
        });
    }
}
