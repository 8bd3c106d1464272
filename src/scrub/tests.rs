//! Tests of rules that no secret shows to be necessary, because other rules overwrite the same bytes. Covers words
//! that were read as a structure, and words that only look like addresses.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::io::{Cursor, Write};
use std::path::Path;

use super::page::{Page, WordMasks};
use super::plan::{MemoryPart, Use};
use super::{Counts, Fill, LeftTexts, Level, Plan, Rule, notes};
use crate::addr::{Addr, AddrRange, PAGE};
use crate::commands::shrink::scrub_plan;
use crate::layout::StructView;
use crate::map::Kind;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::{Options, Process};
use crate::progress::Progress;
use crate::runtimes::api::Execution;
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::cpython::CPython;
use crate::runtimes::hotspot::HotSpot;
use crate::session::Session;
use crate::shrink::write_scrubbed;
use crate::targets::byte_set::WORDS;
use crate::targets::{Arch, at};

/// Bytes of memory read at once.
const AT_ONCE: u64 = 4096;

pub(super) fn open(core: &str) -> Process {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores").join(core);
    let options = Options { record_bytes: true, ..Options::default() };
    Process::open(&path, &options, &Progress::silent()).unwrap()
}

pub(super) fn plan<'s>(session: &'s Session<'_>) -> Plan<'s> {
    scrub_plan(session, Fill::ByLength, Level::Values, &Progress::silent())
}

thread_local! {
    /// The page used last. Its objects are read again for every page, and a process has a budget for reads.
    static LAST: RefCell<Option<(Page, Texts)>> = const { RefCell::new(None) };
}

/// Characters of strings, with the width of a character in bytes.
type Texts = Vec<(AddrRange, u8)>;

/// Returns the masks of the word at `at`.
fn masks_at(plan: &Plan<'_>, used: Use, at: Addr) -> WordMasks {
    LAST.with_borrow_mut(|last| {
        let page = last.take().filter(|(page, _)| page.is_of(at, used));
        let (page, _) = last.insert(page.unwrap_or_else(|| page_of(plan, used, at)));
        page.word(at)
    })
}

fn page_of(plan: &Plan<'_>, used: Use, at: Addr) -> (Page, Texts) {
    let masks = plan.objects.masks(at.align_down(PAGE), WORDS);
    (Page::of(plan, at, used, &masks), masks.texts)
}

/// Returns the word at `at` after scrubbing.
pub(super) fn becomes(plan: &Plan<'_>, at: Addr) -> [u8; 8] {
    let mut bytes = plan.process.memory.look(at, 8).unwrap();
    plan.apply(at, &mut bytes, &mut Counts::default(), &mut LeftTexts::default());
    bytes.try_into().unwrap()
}

/// Number of these words that scrubbing does not change.
fn stayed(plan: &Plan<'_>, words: &[(Addr, u64)]) -> usize {
    let mut page = (Addr::MAX, Vec::new());
    let stays = |&&(at, value): &&(Addr, u64)| {
        let start = at.align_down(PAGE);
        if page.0 != start {
            let mut bytes = plan.process.memory.look(start, PAGE as usize).unwrap();
            plan.apply(start, &mut bytes, &mut Counts::default(), &mut LeftTexts::default());
            page = (start, bytes);
        }
        page.1.as_chunks::<8>().0.get((at.since(start) / 8) as usize) == Some(&value.to_le_bytes())
    };
    words.iter().filter(stays).count()
}

/// Whether the word at `at` has characters of a string.
fn is_character(plan: &Plan<'_>, used: Use, at: Addr) -> bool {
    let word = AddrRange::sized(at, 8);
    masks_at(plan, used, at);
    LAST.with_borrow(|last| last.iter().flat_map(|(_, texts)| texts).any(|(text, _)| text.intersect(&word).is_some()))
}

/// Returns the non-zero words for which `is_one` is true, by address.
pub(super) fn words(plan: &Plan<'_>, is_one: impl Fn(Use, Addr, u64) -> bool) -> Vec<(Addr, u64)> {
    let mut out = Vec::new();
    LAST.set(None);
    for &MemoryPart { range, used, .. } in &plan.parts {
        for page in (range.start.get()..range.end.get()).step_by(AT_ONCE as usize).map(Addr::new) {
            let Ok(bytes) = plan.process.memory.look(page, AT_ONCE.min(range.end.since(page)) as usize) else {
                continue;
            };
            for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let (place, value) = (page.saturating_add(8 * i as u64), u64::from_le_bytes(*word));
                if value != 0 && is_one(used, place, value) {
                    out.push((place, value));
                }
            }
        }
    }
    out
}

/// Scrubs the words that `chosen` selects, after each was read as a structure. All must change with the rule, and most
/// must not without it.
#[track_caller]
fn goes_by(core: &str, rule: Rule, chosen: impl Fn(&Plan<'_>) -> Vec<(Addr, u64)>) {
    let found = {
        let process = open(core);
        chosen(&plan(&Session::new(&process)))
    };
    assert!(!found.is_empty(), "{core} has no such word");
    let process = open(core);
    {
        let _reading = process.reads().enter(Phase::Stacks);
        found.iter().for_each(|&(place, _)| drop(process.memory.bytes(place, 8)));
    }
    let session = Session::new(&process);
    let mut plan = plan(&session);
    assert_eq!(stayed(&plan, &found), 0, "of {}", found.len());
    plan.without(rule);
    // Other rules apply to some of them too.
    let left = stayed(&plan, &found);
    assert!(left > found.len() / 2, "{left} of {}", found.len());
    assert_eq!(process.reads().budget().spent(), None, "without reads nothing stays");
}

#[test]
fn guards_of_stacks_go_whoever_read_them() {
    goes_by("native-glibc-kernel/core.gz", Rule::Guards, |plan| {
        let random = plan.process.auxv(at::RANDOM).map(Addr::new).unwrap();
        let guard = plan.process.memory.u64(random).unwrap() & !0xff;
        let copies = words(plan, |used, _, value| matches!(used, Use::Stack | Use::Data) && value == guard);
        assert!(copies.len() > 1, "each thread has one, and frames have copies: {copies:?}");
        copies
    });
}

#[test]
fn a_text_in_a_block_goes_though_it_was_read_as_a_structure() {
    let letters = |value: u64| value.to_le_bytes().iter().all(u8::is_ascii_alphanumeric);
    goes_by("python313-tasks/core.zst", Rule::UnnamedTexts, |plan| {
        let is_text = |used, at, value| {
            used == Use::Blocks
                && letters(value)
                && masks_at(plan, used, at).keep == 0
                && masks_at(plan, used, at).values == 0
                && !is_character(plan, used, at)
        };
        words(plan, is_text)
    });
}

#[test]
fn values_of_objects_go_whoever_read_them() {
    goes_by("python313-tasks/core.zst", Rule::Values, |plan| {
        words(plan, |used, at, value| {
            used == Use::Data
                && !plan.is_mapped(value)
                && masks_at(plan, used, at).values == u8::MAX
                && !is_character(plan, used, at)
        })
    });
}

#[test]
fn a_word_that_leads_to_no_object_is_a_number() {
    let process = open("java17-offheap/core.zst");
    let session = Session::new(&process);
    let mut plan = plan(&session);
    let inner =
        words(&plan, |used, at, value| plan.objects.is_number(used, value) && masks_at(&plan, used, at).keep == 0);
    assert!(!inner.is_empty());
    assert!(inner.iter().all(|(at, value)| becomes(&plan, *at) != value.to_le_bytes()));
    plan.without(Rule::Numbers);
    assert!(inner.iter().any(|(at, value)| becomes(&plan, *at) == value.to_le_bytes()));
}

#[test]
fn a_word_that_reads_as_the_end_of_a_text_is_no_address() {
    let process = open("dotnet31-createdump/core.zst");
    let session = Session::new(&process);
    let mut plan = plan(&session);
    let ends = words(&plan, |used, at, value| {
        let word = value.to_le_bytes();
        plan.is_mapped(value)
            && plan.is_no_address(word, used, false) == Some(Rule::Readable)
            && masks_at(&plan, used, at).keep == 0
            && masks_at(&plan, used, at).values == 0
    });
    assert!(!ends.is_empty());
    assert!(ends.iter().all(|(at, value)| becomes(&plan, *at) != value.to_le_bytes()));
    plan.without(Rule::Readable);
    assert!(ends.iter().any(|(at, value)| becomes(&plan, *at) == value.to_le_bytes()));
}

#[test]
fn a_low_number_is_an_address_where_it_leads_to_what_addresses_lead_to() {
    // Not position-independent: loaded at 0x400000.
    let process = open("go-kernel/core.zst");
    let session = Session::new(&process);
    let mut plan = plan(&session);
    let numbers = words(&plan, |used, at, value| {
        let is_low = value < super::addresses::LOW_END && plan.is_mapped(value) && used == Use::Data;
        is_low
            && plan.is_no_address(value.to_le_bytes(), used, false) == Some(Rule::Numbers)
            && masks_at(&plan, used, at).keep == 0
    });
    assert!(!numbers.is_empty());
    assert!(numbers.iter().all(|(at, value)| becomes(&plan, *at) != value.to_le_bytes()));
    plan.without(Rule::Numbers);
    assert!(numbers.iter().any(|(at, value)| becomes(&plan, *at) == value.to_le_bytes()));
}

#[test]
fn small_numbers_of_python_are_not_told_by_their_addresses() {
    let process = open("python313-tasks/core.zst");
    let session = Session::new(&process);
    let mut plan = plan(&session);
    let holders = words(&plan, |used, at, value| {
        let is_other = || masks_at(&plan, used, at).values != 0 || is_character(&plan, used, at);
        let is_alike = used == Use::Data && plan.objects.substitutes.contains_key(&value);
        is_alike && !is_other() && masks_at(&plan, used, at).keep == 0
    });
    let different = |plan: &Plan<'_>| {
        let mut all: Vec<_> = holders.iter().map(|(at, _)| becomes(plan, *at)).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    // One for all integers, one for all texts of one letter, and one for all bytes.
    assert_eq!(different(&plan), 3, "of {}", holders.len());
    plan.without(Rule::Alike);
    assert!(different(&plan) > 20);
}

#[test]
fn a_note_of_which_nothing_is_known_loses_its_data() {
    let process = open("native-glibc-kernel/core.gz");
    let session = Session::new(&process);
    let mut plan = plan(&session);
    let mut note = Vec::new();
    for word in [5u32, 8, 77] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"ACME\0\0\0\0hunter22");
    let after = |plan: &Plan<'_>| {
        notes(&note, Arch::X86_64, plan, &mut Counts::default()).get(..note.len()).map(<[u8]>::to_vec)
    };
    assert_eq!(after(&plan).unwrap(), [note.get(..20).unwrap(), &[0; 8]].concat());
    plan.without(Rule::UnknownNotes);
    assert_eq!(after(&plan).unwrap(), note);
}

#[test]
fn a_word_that_leads_into_a_reservation_is_a_number() {
    let process = open("dotnet10-kernel-threads/core.zst");
    let session = Session::new(&process);
    let mut plan = plan(&session);
    let is_large = |part: &&MemoryPart| part.kind == Kind::GCHeapReserve && !part.is_held && part.range.len() > 1 << 30;
    let reserve = plan.parts.iter().find(is_large).unwrap().range;
    let word = reserve.start.saturating_add(reserve.len() / 2).get().to_le_bytes();
    assert_eq!(plan.is_no_address(word, Use::Data, false), Some(Rule::Numbers));
    plan.without(Rule::Numbers);
    assert_eq!(plan.is_no_address(word, Use::Data, false), None);
}

#[test]
fn what_gdb_takes_for_the_name_of_the_program_may_be_an_argument() {
    let process = open("dotnet31-gcore/core.xz");
    let session = Session::new(&process);
    let plan = plan(&session);
    let named = |name: &str| {
        // Owner, data and type of a note; `pr_fname` is at 40 (`struct elf_prpsinfo`).
        let mut note: Vec<u8> = [5u32, 136, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
        note.extend(b"CORE\0\0\0\0");
        let mut data = [0u8; 136];
        data[40..40 + name.len()].copy_from_slice(name.as_bytes());
        note.extend(data);
        let out = notes(&note, Arch::X86_64, &plan, &mut Counts::default());
        out.get(60..60 + name.len()).unwrap().to_vec()
    };
    assert_eq!(named("libcoreclr.so"), b"libcoreclr.so");
    assert_eq!(named("user: hunter22"), [0; 14]);
}

/// Returns scrubbed memory by start address, processed in runs of `len` bytes.
fn all_in_runs_of(plan: &Plan<'_>, len: u64) -> Vec<(Addr, Vec<u8>)> {
    let mut out = Vec::new();
    for &MemoryPart { range, .. } in plan.parts.iter().filter(|part| part.is_held) {
        let whole = plan.process.memory.look(range.start, range.len() as usize);
        let Ok(mut bytes) = whole else { continue };
        for (i, run) in bytes.chunks_mut(len as usize).enumerate() {
            let start = range.start.saturating_add(len * i as u64);
            plan.apply(start, run, &mut Counts::default(), &mut LeftTexts::default());
        }
        out.push((range.start, bytes));
    }
    out
}

#[test]
fn what_becomes_of_memory_is_the_same_wherever_runs_of_it_begin() {
    for core in ["python311/core.zst", "python314/core.zst", "dotnet8-objects/core.zst", "java17-threads/core.zst"] {
        let process = open(core);
        let session = Session::new(&process);
        let plan = plan(&session);
        let (large, small) = (all_in_runs_of(&plan, 4 << 20), all_in_runs_of(&plan, 0x2008));
        assert!(large.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > 1 << 20, "{core}");
        for ((at, large), (_, small)) in large.iter().zip(&small) {
            let differ = large.iter().zip(small).position(|(large, small)| large != small);
            assert_eq!(differ.map(|i| at.saturating_add(i as u64)), None, "{core}");
        }
    }
}

#[test]
fn what_exceptions_say_by_number_stays() {
    let process = open("dotnet8-objects/core.zst");
    let session = Session::new(&process);
    let plan = plan(&session);
    let runtimes = CoreClr::find(&process);
    let types = runtimes.first().unwrap().types();
    let exceptions = crate::commands::exceptions(&session).exceptions;
    assert!(exceptions.len() > 10);
    for exception in exceptions {
        let kind = process.memory.ptr(exception.object).unwrap();
        let field = types.object_fields(kind).into_iter().find(|field| types.field_name(field) == "_HResult").unwrap();
        let at = exception.object.saturating_add(field.offset);
        let number = format!("0x{:08x}", process.memory.u32(at).unwrap());
        assert_eq!(exception.hresult, Some(number));
        let skip = at.since(at.align_down(8)) as usize;
        let (was, is) = (process.memory.look(at, 4).unwrap(), becomes(&plan, at.align_down(8)));
        assert_eq!(is.get(skip..skip + 4).unwrap(), was.to_vec());
    }
}

/// Whether all these bytes were declared a structure or a name, in any kind of memory.
pub(super) fn are_found(plan: &Plan<'_>, at: Addr, len: u64) -> bool {
    (0..len).map(|i| at.saturating_add(i)).all(|at| {
        let bit = at.since(at.align_down(8));
        masks_at(plan, Use::Data, at).found >> bit & 1 != 0
    })
}

#[test]
fn names_of_javas_threads_stay_where_the_heap_is_no_more() {
    let process = open("java17-threads/core.zst");
    let session = Session::new(&process);
    let plan = plan(&session);
    let runtimes = HotSpot::find(&process);
    let vm = runtimes.first().unwrap();
    let classes = vm.classes();
    let follow = |object: Addr, field: &str| {
        let class = classes.class_of(object).unwrap();
        let at = object.saturating_add(classes.field(&class, field).unwrap().offset);
        (at, classes.reference(at).unwrap())
    };
    let objects = vm.all_threads().by_address.values().filter_map(|thread| thread.object.clone());
    let objects: Vec<_> = objects.filter(|object| object.name.is_some()).collect();
    assert!(objects.len() > 5);
    for object in objects {
        let (name_at, name) = follow(object.address, "name");
        let (value_at, value) = follow(name, "value");
        let reference = classes.encoding.unit();
        assert!(are_found(&plan, name_at, reference) && are_found(&plan, value_at, reference));
        let class_at = classes.encoding.klass_word();
        for object in [object.address, name, value] {
            assert!(are_found(&plan, object.saturating_add(class_at.0), class_at.1), "{object}");
        }
        let characters = object.name.unwrap().chars().count() as u64;
        assert!(are_found(&plan, value.saturating_add(classes.encoding.length_at), 4 + characters));
    }
}

#[test]
fn methods_of_interpreted_frames_stay_though_their_addresses_read_as_text() {
    let process = open("java17-threads/core.zst");
    let session = Session::new(&process);
    let plan = plan(&session);
    let threads = crate::commands::threads(&session, crate::commands::ThreadOptions::default()).threads;
    let frames =
        threads.iter().flat_map(|thread| &thread.frames).filter(|frame| frame.how == Some(Execution::Interpreted));
    let mut count = 0;
    for frame in frames {
        let (from, method) = (frame.sp, frame.method_desc.unwrap());
        let places = (0..256).map(|i| from.saturating_add(8 * i));
        let mut places = places.filter(|at| process.memory.peek_u64(*at).is_ok_and(|word| word == method.get()));
        assert!(places.any(|at| masks_at(&plan, Use::Stack, at).sure == u8::MAX), "{:?}", frame.method);
        count += 1;
    }
    assert!(count > 3);
}

#[test]
fn names_of_the_c_library_and_of_the_kernel_are_nobodys_own() {
    let process = open("zoo-gcore/core.zst");
    let session = Session::new(&process);
    let plan = scrub_plan(&session, Fill::ByLength, Level::Names, &Progress::silent());
    let table = plan.table_of_names().unwrap();
    let own: Vec<&str> = table.lines().filter_map(|line| line.split('\t').nth(1)).collect();
    assert!(own.contains(&"zoo"), "{own:?}");
    // The program imports the first, which glibc has only as the end of `wmemset`.
    for name in ["memset", "__vdso_time", "gettimeofday"] {
        assert!(!own.contains(&name), "{name}");
    }
}

// A core shrunk for thread commands. None of its heap objects can be walked, and code heaps look like any other
// mapping.
const THREADS: &str = "dotnet8-threads/core.zst";

#[test]
fn how_long_names_of_threads_are_stays_without_a_heap() {
    let process = open(THREADS);
    let session = Session::new(&process);
    let plan = plan(&session);
    // A length of 8, and the first two characters of "lab-main".
    let head = 8 | u64::from(u32::from(b'a') << 16 | u32::from(b'l')) << 32;
    let heads = words(&plan, |_, _, value| value == head);
    assert!(!heads.is_empty());
    assert!(heads.iter().any(|(at, _)| becomes(&plan, *at) == head.to_le_bytes()));
}

#[test]
fn gc_info_stays_though_its_bits_read_as_letters() {
    // Number of frames that report their references precisely, and of those that don't.
    let frames = |process: &Process| {
        let session = Session::new(process);
        let stacks = session.roots(session.runtimes_by_id().first().unwrap().0).stacks;
        (stacks.frames_precise, stacks.frames_conservative)
    };
    let process = open(THREADS);
    let session = Session::new(&process);
    let mut out = Cursor::new(Vec::new());
    write_scrubbed(&process, None, &plan(&session), LeftTexts::default(), &mut out).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&out.into_inner()).unwrap();
    let scrubbed = Process::open(file.path(), &Options::default(), &Progress::silent()).unwrap();
    let before = frames(&process);
    assert!(before.0 > 100 && before.1 == 0, "{before:?}");
    assert_eq!(frames(&scrubbed), before);
}

#[test]
fn what_counts_arenas_stays_wherever_an_interpreter_is() {
    let process = open("python313-tasks/core.zst");
    let session = Session::new(&process);
    let plan = plan(&session);
    let runtimes = CPython::find(&process);
    let runtime = runtimes.first().unwrap().runtime();
    let interpreter = *runtime.interpreters.first().unwrap();
    // A pointer, since 3.13.
    let place = runtime.view("PyInterpreterState", interpreter).addr_of("obmalloc").unwrap();
    let at = process.memory.ptr(place).unwrap();
    let state = StructView::new(&process.memory, &runtime.layout, "_obmalloc_state", at);
    assert!(state.u32("mgmt.maxarenas").unwrap() > 0);
    assert!(are_found(&plan, place, 8));
    assert!(are_found(&plan, state.addr_of("mgmt.arenas").unwrap(), 8));
    assert!(are_found(&plan, state.addr_of("mgmt.maxarenas").unwrap(), 4));
}
