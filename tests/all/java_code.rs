//! Code of a HotSpot made by hand: what each address is, and code caches that lie. Each ends in bounded time and memory,
//! and what stands before the lie keeps its name.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::builder::file_with;
use crate::support::hotspot_builder::{CODE, Compiled, Fake, at, size};
use crate::support::run::{bounded, program};

const MOST: Duration = Duration::from_secs(40);

/// A sane VM, with where its parts are.
struct Vm {
    fake: Fake,
    interpreter: u64,
    stubs: u64,
    outer: u64,
    native: u64,
}

/// Where `Lab.outer` has inlined `Lab.inner`, up to this offset of its code; up to twice of it it has not.
const INLINED: u32 = 0x40;

fn sane() -> Vm {
    let mut fake = Fake::new();
    let interpreter = fake.interpreter(&["return entry points", "iload"]);
    let stubs = fake.blob("CodeBlob", "StubRoutines (1)", 128, 0) + size("CodeBlob");
    fake.set_static("StubRoutines", "_call_stub_return_address", stubs + 16);
    fake.set_static("StubRoutines", "_jint_arraycopy", stubs + 64);
    let outer = fake.method("Lab", "outer", "(I)Ljava/lang/String;");
    let inner = fake.method("a/Lab$In", "inner", "([J)V");
    // Two scopes of {caller, method, bytecode + 1}: outer at 5, and inner at 3 whose caller is the first.
    let scopes = [0, 1, 6, 1, 2, 4];
    let pcs = [(INLINED, 4), (2 * INLINED, 1)];
    let compiled =
        Compiled { method: outer, level: 4, name: "nmethod", pcs: &pcs, scopes: &scopes, metadata: &[outer, inner] };
    let outer = fake.nmethod(&compiled) + size("nmethod");
    fake.block(1000, false);
    let method = fake.method("Lab", "look", "()J");
    let compiled = Compiled { method, level: 0, name: "native nmethod", pcs: &[], scopes: &[], metadata: &[] };
    let native = fake.nmethod(&compiled) + size("nmethod");
    Vm { fake, interpreter, stubs, outer, native }
}

fn hex(at: u64) -> String {
    format!("{at:#x}")
}

/// The rows of `ip2method` for these addresses.
fn rows(fake: &Fake, ips: &[u64]) -> Vec<Value> {
    let core = fake.core().write();
    let ips: Vec<String> = ips.iter().map(|&ip| hex(ip)).collect();
    let mut args = vec!["ip2method", "--json"];
    args.extend(ips.iter().map(String::as_str));
    let out = bounded(&args, core.path()).within(MOST).go();
    out.is_sound();
    assert!(matches!(out.code, Some(0 | 1 | 4)), "{:?}: {}", out.code, out.stderr);
    out.json()["results"].as_array().unwrap().clone()
}

#[test]
fn every_address_of_the_code_cache_is_something() {
    let vm = sane();
    let ips = [vm.outer + 0x10, vm.outer + 0x50, vm.outer + 0x90, vm.native + 1];
    let found = rows(&vm.fake, &ips);
    let pick = |row: &Value| json!([row["method"], row["tier"], row["il_offset"], row["code_start"], row["code_size"]]);
    let outer = |bci: Value| json!(["Lab.outer(int)", "C2 4", bci, hex(vm.outer), 256]);
    assert_eq!(pick(&found[0]), outer(json!(5)));
    assert_eq!(pick(&found[1]), outer(json!(5)));
    // Behind the last debug information.
    assert_eq!(pick(&found[2]), outer(Value::Null));
    assert_eq!(pick(&found[3]), json!(["Lab.look()", "native", null, hex(vm.native), 256]));
    let inlined: Vec<&Value> = found.iter().map(|row| &row["inlined"]).collect();
    let inner = json!([{"method": "a.Lab$In.inner(long[])", "il_offset": 3, "file": null, "line": null}]);
    assert_eq!(inlined, [&inner, &json!([]), &json!([]), &json!([])]);

    let ips =
        [vm.interpreter + 70, vm.stubs + 15, vm.stubs + 64, vm.stubs + 65, vm.stubs + 4, vm.outer + 300, CODE + 0x7fff];
    let reasons: Vec<String> = rows(&vm.fake, &ips)
        .iter()
        .map(|row| {
            assert_eq!((&row["found"], &row["method"]), (&json!(false), &Value::Null));
            row["reason"].as_str().unwrap().to_owned()
        })
        .collect();
    for (reason, begin) in reasons.iter().zip([
        format!("iload (interpreter codelet at {}), where an interpreted Java frame is", hex(vm.interpreter + 64)),
        format!("StubRoutines (1): call_stub (return) (stub at {})", hex(vm.stubs)),
        "StubRoutines (1): jint_arraycopy (".to_owned(),
        "StubRoutines (1): jint_arraycopy, or past its end (".to_owned(),
        "StubRoutines (1) (".to_owned(),
        "data of java.lang.String Lab.outer(int), outside of its code".to_owned(),
        "in the code cache at 0x7e0000000000, but in no code blob".to_owned(),
    ]) {
        assert!(reason.starts_with(&begin), "{reason}: not {begin}");
    }
}

/// `Compiler.perfmap` of the VM writes a method with the type that it returns, and all else by the VM's name of it.
#[test]
fn the_map_for_perf_is_the_vms() {
    let vm = sane();
    let core = vm.fake.core().write();
    let out = program(["perfmap".as_ref(), core.path().as_os_str()]).go();
    let line = |at: u64, size: u64, name: &str| format!("{at:x} {size:x} {name}");
    let lines = [
        line(vm.interpreter, 128, "Interpreter"),
        line(vm.stubs, 128, "StubRoutines (1)"),
        line(vm.outer, 256, "java.lang.String Lab.outer(int)"),
        line(vm.native, 256, "long Lab.look()"),
    ];
    assert_eq!(out.exits(0).stdout.lines().collect::<Vec<_>>(), lines);
}

#[test]
fn a_text_gets_inlined_methods_and_is_told_what_it_cannot_say() {
    let vm = sane();
    let core = vm.fake.core().write();
    let returns = [vm.outer + 0x10, vm.interpreter + 8, vm.stubs + 16, vm.native + 4];
    let frames = returns.map(|at| format!("\t\t0x{at:016x}\t[unknown]\n"));
    let text = file_with(format!("\t64 bytes in 1 allocations from stack\n{}", frames.concat()).as_bytes());
    let ask = |options: &[&str]| {
        let files = [text.path(), core.path()].map(|path| path.as_os_str().to_owned());
        let args = options.iter().map(std::ffi::OsString::from).chain(files);
        program(["symbolicate".into()].into_iter().chain(args)).go()
    };
    let inner = "a.Lab$In.inner(long[])";
    let names = [
        format!("{inner} <- Lab.outer(int)+0x10"),
        "interpreted Java frame [return entry points]+0x8".to_owned(),
        "StubRoutines (1): call_stub (return)+0x10".to_owned(),
        "Lab.look()+0x4".to_owned(),
    ];
    let out = ask(&[]);
    for ((line, at), name) in out.exits(0).stdout.lines().skip(1).zip(returns).zip(names) {
        assert_eq!(line, format!("\t\t0x{at:016x}\t{name}"));
    }
    let folded = ask(&["--fold"]);
    let stack = "Lab.look();StubRoutines (1): call_stub (return);interpreted Java frame [return entry points]";
    assert_eq!(folded.exits(0).stdout, format!("{stack};Lab.outer(int);{inner} 64\n"));
    let answer = ask(&["--json"]).json();
    let notes: Vec<bool> = answer["frames"].as_array().unwrap().iter().map(|f| f["note"].is_string()).collect();
    assert_eq!(notes, [false, true, false, false]);
    assert_eq!(answer["frames"][0]["inlined"][0]["method"], inner);
    assert_eq!(ask(&["--format", "csv"]).exits(0).stdout.lines().count(), 1 + returns.len());
}

/// What a lie does to the VM.
type Lie = fn(&mut Vm);

#[test]
fn code_caches_that_lie_end() {
    let lies: &[(&str, Lie)] = &[
        ("a block without a valid size", |vm| {
            let block = vm.fake.block(200, true) - size("HeapBlock");
            vm.fake.put(block + at("HeapBlock::Header", "_length"), 1 << 63);
        }),
        ("a block beyond the heap", |vm| {
            let block = vm.fake.block(200, true) - size("HeapBlock");
            vm.fake.put(block + at("HeapBlock::Header", "_length"), 0x1000);
        }),
        ("a blob beyond its block", |vm| {
            let blob = vm.fake.blob("CodeBlob", "long", 64, 0);
            vm.fake.set("CodeBlob", blob, "_size", 0x7fff_ffff);
        }),
        ("code that ends before it begins", |vm| {
            let blob = vm.fake.blob("CodeBlob", "back", 64, 0);
            vm.fake.set("CodeBlob", blob, "_code_end", CODE);
        }),
        ("a name that is nowhere", |vm| {
            let blob = vm.fake.blob("CodeBlob", "nowhere", 64, 0);
            vm.fake.set("CodeBlob", blob, "_name", u64::MAX);
        }),
    ];
    for (what, lie) in lies {
        let mut vm = sane();
        lie(&mut vm);
        let found = rows(&vm.fake, &[vm.outer + 0x10, vm.native + 1, vm.fake.block - 8]);
        assert_eq!(
            (&found[0]["method"], &found[1]["method"]),
            (&json!("Lab.outer(int)"), &json!("Lab.look()")),
            "{what}"
        );
        assert_eq!(found[2]["found"], false, "{what}");
        let core = vm.fake.core().write();
        let map = bounded(&["perfmap"], core.path()).within(MOST).go();
        map.is_sound();
        assert_eq!((map.code, map.stdout.lines().count()), (Some(4), 4), "{what}: {}", map.stderr);
    }
}

/// A heap that ends its list of blocks with one of no length, and heaps of which nothing is believed.
#[test]
fn heaps_that_lie_end() {
    let mut vm = sane();
    let block = vm.fake.block(200, true) - size("HeapBlock");
    vm.fake.put(block + at("HeapBlock::Header", "_length"), 0);
    assert_eq!(rows(&vm.fake, &[vm.outer])[0]["found"], true);
    let lies: &[Lie] = &[
        |vm| vm.fake.put(vm.fake.heap + at("CodeHeap", "_log2_segment_size"), 63),
        |vm| vm.fake.put(vm.fake.heap + at("CodeHeap", "_log2_segment_size"), 0x7fff_ffff),
        |vm| vm.fake.put(vm.fake.heap + at("VirtualSpace", "_high"), u64::MAX),
        |vm| vm.fake.put(vm.fake.heap + at("VirtualSpace", "_low"), u64::MAX),
        |vm| vm.fake.set_static("CodeCache", "_heaps", u64::MAX - 7),
        |vm| vm.fake.set("GrowableArrayBase", vm.fake.heaps, "_len", 0x7fff_ffff),
        |vm| vm.fake.set("StubQueue", vm.fake.queue, "_buffer_limit", u64::MAX),
        |vm| vm.fake.set("StubQueue", vm.fake.queue, "_stub_buffer", u64::MAX),
        |vm| vm.fake.set("StubQueue", vm.fake.queue, "_number_of_stubs", 0x7fff_ffff),
        |vm| vm.fake.set("InterpreterCodelet", vm.interpreter, "_size", 0),
        |vm| vm.fake.set("InterpreterCodelet", vm.interpreter, "_size", 0x7fff_ffff),
    ];
    for lie in lies {
        let mut vm = sane();
        lie(&mut vm);
        rows(&vm.fake, &[vm.outer, vm.interpreter, vm.interpreter + 64, vm.stubs]);
        let core = vm.fake.core().write();
        bounded(&["perfmap"], core.path()).within(MOST).go().is_sound();
    }
}

/// What follows the heaps in their list is none: that is told, and the heaps are read.
#[test]
fn a_heap_that_is_none_leaves_the_others() {
    let mut vm = sane();
    vm.fake.set("GrowableArrayBase", vm.fake.heaps, "_len", 2);
    let core = vm.fake.core().write();
    let map = bounded(&["perfmap"], core.path()).within(MOST).go();
    assert_eq!((map.code, map.stdout.lines().count()), (Some(4), 4), "{}", map.stderr);
    assert!(map.stderr.contains("code cache"), "{}", map.stderr);
}

/// Debug information in circles, backwards, and out of the blob: the method is known all the same.
#[test]
fn debug_information_that_lies_ends() {
    let pcs: &[&[(u32, u32)]] = &[
        &[(INLINED, 4), (2 * INLINED, 1)],
        // Backwards, without a scope, beyond the scopes, negative.
        &[(2 * INLINED, 1), (INLINED, 4)],
        &[(INLINED, 0)],
        &[(INLINED, 0x7fff_ffff)],
        &[(u32::MAX, u32::MAX), (INLINED, u32::MAX)],
    ];
    let scopes: &[&[u8]] = &[
        // A scope that is its own caller; two that are each other's; one behind all.
        &[1, 1, 6, 4, 2, 4],
        &[4, 1, 6, 1, 2, 4],
        &[255, 255, 255, 255, 255, 255],
        // No method, one beyond the metadata, a bytecode of all bits.
        &[0, 0, 6, 1, 0, 4],
        &[0, 255, 255, 255, 255, 255, 6],
        &[0, 1, 255, 255, 255, 255, 255],
        &[],
    ];
    for pcs in pcs {
        for scopes in scopes {
            let mut vm = sane();
            let method = vm.fake.method("Lab", "lies", "()V");
            let compiled = Compiled { method, level: 3, name: "nmethod", pcs, scopes, metadata: &[method] };
            let code = vm.fake.nmethod(&compiled) + size("nmethod");
            let found = rows(&vm.fake, &[code, code + 0x3f, code + 0x41, vm.outer + 0x10]);
            for row in found.get(..3).unwrap() {
                assert_eq!((&row["method"], &row["tier"]), (&json!("Lab.lies()"), &json!("C1 3")));
                assert!(row["inlined"].as_array().unwrap().len() <= 2, "{row}");
            }
            assert_eq!(found[3]["inlined"].as_array().unwrap().len(), 1);
        }
    }
    let mut vm = sane();
    // Tables that end before they begin.
    let blob = vm.outer - size("nmethod");
    vm.fake.set("nmethod", blob, "_dependencies_offset", 1);
    assert_eq!(rows(&vm.fake, &[vm.outer])[0]["method"], "Lab.outer(int)");
    vm.fake.set("nmethod", blob, "_scopes_data_begin", u64::MAX);
    vm.fake.set("nmethod", blob, "_method", u64::MAX);
    assert_eq!(rows(&vm.fake, &[vm.outer])[0]["found"], false);
}
