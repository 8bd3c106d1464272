//! Habits of programs that write cores: what the answers are in spite of them.

use serde_json::Value;

use crate::support::builder::{CoreBuilder, Load, R, W, X, image, small_core};
use crate::support::notes;
use crate::support::real::hex;
use crate::support::run::run;

fn rows(core: &CoreBuilder, command: &str, list: &str) -> Vec<Value> {
    let file = core.write();
    let out = run([command, "--json", file.path().to_str().unwrap()]);
    out.is_sound().json()[list].as_array().unwrap().clone()
}

const BASE: u64 = 0x7f00_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;

fn one_thread() -> CoreBuilder {
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(1, 0, STACK + 0x800, BASE + 0x640, 0))
        .note(notes::prpsinfo(1, "till", "till"))
        .load(Load::at(STACK).bytes(vec![1; 0x1000]))
}

/// Base addresses of the modules with this path.
fn bases(core: &CoreBuilder, path: &str) -> Vec<u64> {
    rows(core, "info", "modules").iter().filter(|m| m["path"] == path).map(|m| hex(&m["base"])).collect()
}

/// Old linkers, and all on pages of 64 KiB: the first page of the data is the first page of the file again.
#[test]
fn a_data_segment_that_repeats_offset_0_is_no_module() {
    let path = "/opt/till/libtill.so";
    let data = BASE + 0x20_0000;
    let files = [
        (BASE, BASE + 0x1000, 0, path),
        (BASE + 0x1000, data, 1, path),
        (data, data + 0x1000, 0, path),
        (data + 0x1000, data + 0x2000, 1, path),
    ];
    let headers = image(&[(0, 0x1000, R | X), (0x20_0000, 0x2000, R | W)], 0x1000);
    for page in [headers, vec![0; 0x1000]] {
        let core = one_thread()
            .note(notes::files(4096, &files))
            .load(Load::at(BASE).flags(R | X).memsz(0x1000))
            .load(Load::at(BASE + 0x1000).flags(0).memsz(0x1f_f000))
            .load(Load::at(data).flags(R).bytes(page))
            .load(Load::at(data + 0x1000).bytes(vec![7; 0x1000]));
        assert_eq!(bases(&core, path), [BASE]);
        let regions = rows(&core, "regions", "regions");
        let of_file: Vec<&Value> =
            regions.iter().filter(|r| (BASE..data + 0x2000).contains(&hex(&r["start"]))).collect();
        assert!(of_file.iter().all(|r| r["kind"] == "Image"), "{of_file:?}");
    }
}

/// dlmopen maps a library a second time.
#[test]
fn a_library_that_is_mapped_twice_is_two_modules() {
    let path = "/opt/till/libtill.so";
    let second = BASE + 0x100_0000;
    let starts = [BASE, second];
    let files: Vec<(u64, u64, u64, &str)> =
        starts.iter().flat_map(|&at| [(at, at + 0x1000, 0, path), (at + 0x1000, at + 0x2000, 1, path)]).collect();
    let loads = starts
        .iter()
        .flat_map(|&at| [Load::at(at).flags(R | X).memsz(0x1000), Load::at(at + 0x1000).bytes(vec![7; 0x1000])]);
    assert_eq!(bases(&one_thread().note(notes::files(4096, &files)).loads(loads), path), starts);
}

/// VM_READ is 1 and VM_EXEC is 4; PF_X is 1 and PF_R is 4.
#[test]
fn flags_of_the_kernel_in_place_of_flags_of_elf() {
    let access = [(R, "r--"), (R | W, "rw-"), (R | X, "r-x"), (R | W | X, "rwx"), (0, "---")];
    let core = |kernel: bool| {
        let flags = |flags: u32| match kernel {
            true => (flags & W) | if flags & R != 0 { 1 } else { 0 } | if flags & X != 0 { 4 } else { 0 } | 0x8000_0070,
            false => flags,
        };
        let loads = access.iter().enumerate().map(|(i, (f, _))| {
            let bytes = vec![1; if *f == 0 { 0 } else { 0x1000 }];
            Load::at(BASE + 0x10_0000 * i as u64).flags(flags(*f)).bytes(bytes).memsz(0x1000)
        });
        CoreBuilder::x86_64()
            .note(notes::prstatus_x86_64(1, 0, STACK + 0x800, BASE + 0x640, 0))
            .note(notes::prpsinfo(1, "till", "till"))
            .loads(loads)
            .load(Load::at(STACK).flags(flags(R | W)).bytes(vec![1; 0x1000]))
    };
    let shown = |core: &CoreBuilder| {
        let rows = rows(core, "regions", "regions");
        rows.iter().map(|r| (hex(&r["start"]), r["kind"].clone(), r["perms"].clone())).collect::<Vec<_>>()
    };
    let (elf, kernel) = (shown(&core(false)), shown(&core(true)));
    assert_eq!(elf, kernel);
    for (i, (_, letters)) in access.iter().enumerate() {
        let row = kernel.iter().find(|r| r.0 == BASE + 0x10_0000 * i as u64).unwrap();
        assert!(row.2.as_str().unwrap().starts_with(letters), "{row:?}");
    }
    assert!(kernel.iter().any(|r| r.0 == STACK && r.1 == "Stack"), "{kernel:?}");
    let file = core(true).write();
    let info = run(["info", "--json", file.path().to_str().unwrap()]).is_sound().json();
    let codes: Vec<&Value> = info["warnings"].as_array().unwrap().iter().map(|w| &w["code"]).collect();
    assert!(codes.contains(&&Value::from("kernel-flags")), "{codes:?}");
}

/// Delve's `dump` leaves the owner of its notes empty.
#[test]
fn notes_without_an_owner_are_known_by_type_and_size() {
    let named = small_core();
    let mut bytes = named.build();
    for at in named.notes_range() {
        if bytes[at..].starts_with(b"CORE\0") {
            bytes[at..at + 4].fill(0);
        }
    }
    let file = crate::support::builder::file_with(&bytes);
    let said = |path: &std::path::Path| run(["info", "--json", path.to_str().unwrap()]).is_sound().json();
    let (with, without) = (said(named.write().path()), said(file.path()));
    for field in ["process", "modules", "crash", "threads", "libc"] {
        assert_eq!(with[field], without[field], "{field}");
    }
    let threads = run(["threads", "--json", file.path().to_str().unwrap()]).is_sound().json();
    let tids: Vec<u64> = threads["threads"].as_array().unwrap().iter().map(|t| t["tid"].as_u64().unwrap()).collect();
    assert_eq!(tids, [1234, 1235]);
}

/// vdsos of older kernels have two pages, and Linux 3.15 has its data above.
#[test]
fn the_whole_vdso_is_the_kernels() {
    let vdso = 0x7fff_1596_c000;
    let core = |vvar: u64| {
        one_thread()
            .note(notes::auxv(&[(33, vdso)]))
            .load(Load::at(vdso).flags(R | X).bytes(image(&[(0, 0x600, R | X)], 0x2000)))
            .load(Load::at(vvar).flags(R).memsz(0x2000))
    };
    for vvar in [vdso + 0x2000, vdso - 0x2000] {
        let rows = rows(&core(vvar), "regions", "regions");
        let kernels: u64 = rows.iter().filter(|r| r["kind"] == "Vdso").map(|r| r["size"].as_u64().unwrap()).sum();
        assert_eq!(kernels, 0x4000, "{rows:?}");
    }
}

/// The kernel leaves NT_FILE out if it is larger than kernel.core_file_note_size_limit. Then nobody knows which memory
/// is of a file.
#[test]
fn without_a_list_of_files_any_memory_may_be_of_one() {
    let (read_only, written) = (BASE + 0x100_0000, BASE + 0x1000_0000);
    let core = |listed: bool| {
        let core = one_thread()
            .load(Load::at(read_only).flags(R).memsz(0x180_0000))
            .load(Load::at(written).bytes(vec![b'w'; 0x10_0000]));
        if listed { core.note(notes::files(4096, &[(BASE, BASE + 0x1000, 0, "/opt/till/till")])) } else { core }
    };
    let findings = |core: &CoreBuilder, command: &str| {
        let findings = rows(core, command, "findings").into_iter();
        let owners = findings.filter(|f| ["anonymous", "unnamed"].contains(&f["id"].as_str().unwrap()));
        owners.map(|f| format!("{} {}", f["text"], f["evidence"])).collect::<Vec<_>>()
    };
    for listed in [false, true] {
        let core = core(listed);
        let regions = rows(&core, "regions", "regions");
        for at in [read_only, written] {
            let region = regions.iter().find(|r| hex(&r["start"]) == at).unwrap();
            assert_eq!(region["confidence"], if listed { "exact" } else { "heuristic" }, "{region}");
            assert_eq!(region["detail"].as_str().unwrap().contains("or of a file"), !listed, "{region}");
        }
        for command in ["triage", "summary"] {
            let texts = findings(&core, command);
            assert_eq!(texts.len(), 1, "{command}: {texts:?}");
            let is_sure = texts[0].contains("of anonymous memory") && !texts[0].contains("NT_FILE");
            assert_eq!(is_sure, listed, "{command}: {texts:?}");
        }
    }
}

/// Only program files fill in what the core lacks: no file has what was in a socket's ring, in shared memory, or on a
/// device.
#[test]
fn only_files_are_file_mappings_that_were_left_out() {
    let mib = 1 << 20;
    let at = |n: u64| BASE + n * 0x1000_0000;
    let (program, data, device, ring, memory) = (at(0), at(1), at(2), at(3), at(4));
    let core = one_thread()
        .note(notes::files(
            4096,
            &[
                (program, program + 0x1000, 0, "/opt/till/till"),
                (program + 0x1000, program + 0x1000 + 2 * mib, 1, "/opt/till/till"),
                (data, data + 3 * mib, 0, "/var/lib/till/sales.db"),
                (device, device + 4 * mib, 0, "/dev/dri/card0"),
                (ring, ring + 8 * mib, 0, "socket:[2655390]"),
                (memory, memory + 16 * mib, 0, "/memfd:rings (deleted)"),
            ],
        ))
        .load(Load::at(program).flags(R).bytes(image(&[(0, 0x1000 + 2 * mib, R | X)], 0x1000)))
        .load(Load::at(program + 0x1000).flags(R | X).memsz(2 * mib))
        .load(Load::at(data).flags(R).memsz(3 * mib))
        .load(Load::at(device).memsz(4 * mib))
        .load(Load::at(ring).memsz(8 * mib))
        .load(Load::at(memory).memsz(16 * mib));
    let file = core.write();
    let info = run(["info", "--json", file.path().to_str().unwrap()]).is_sound().json();
    let completeness = &info["completeness"];
    assert_eq!(completeness["file_missing"], 5 * mib, "{completeness:#}");
    assert_eq!(completeness["shared_missing"], 28 * mib, "{completeness:#}");
    let notes: Vec<&str> = completeness["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let supplied = notes.iter().find(|note| note.contains("--symbols")).unwrap();
    assert!(supplied.contains("5.00 MiB") && supplied.contains("supplies 2.00 MiB of it"), "{supplied}");
    let regions = rows(&core, "regions", "regions");
    let region = regions.iter().find(|r| hex(&r["start"]) == ring).unwrap();
    assert_eq!((&region["kind"], region["perms"].as_str()), (&Value::from("SharedMemory"), Some("rw-s")), "{region}");
}
