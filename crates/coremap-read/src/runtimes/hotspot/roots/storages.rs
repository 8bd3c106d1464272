//! Handles of native code and of the VM: OopStorage, blocks of slots with a bit for each slot in use
//! (src/hotspot/share/gc/shared/oopStorage.hpp and oopStorage.inline.hpp).
//!
//! The VM's tables have the address of the storage of JNI's global handles, but not its layout. The layout can be
//! verified: each block points back to its storage. So the VM's other storages are found among libjvm's variables.

use std::collections::BTreeSet;

use crate::addr::{Addr, AddrRange};
use crate::image::ModuleKind;
use crate::limits;
use crate::memory::Memory;
use crate::memory::window::Window;
use crate::runtimes::api::{Root, Roots};
use crate::runtimes::hotspot::classes::{Classes, WORD};
use crate::runtimes::hotspot::roots::{JNI_GLOBAL, VM_INTERNAL};

/// Number of slots per block, one per bit of a word.
const SLOTS: u64 = 64;

/// Offsets after a block's slots: bits of the slots in use, then the storage.
const IN_USE: u64 = SLOTS * WORD;
const OWNER: u64 = IN_USE + WORD;

/// Offsets in a storage of its name and of its list of blocks.
const NAME: u64 = 0;
const BLOCKS: u64 = WORD;

/// Offsets in a list of blocks, which begins with its capacity: the number of blocks, and possible positions of the
/// first block.
const COUNT: u64 = WORD;
const FIRST_BLOCK: [u64; 3] = [2 * WORD, 3 * WORD, 4 * WORD];

/// A verified storage.
struct Storage {
    name: String,
    blocks: Vec<Addr>,
    /// Whether all blocks of its list are in `blocks`.
    is_whole: bool,
}

impl Storage {
    fn is_weak(&self) -> bool {
        self.name.contains("Weak")
    }
}

pub(super) fn read(classes: &Classes<'_>, roots: &mut Roots) {
    let vm = &classes.vm;
    let global = vm.static_ptr("JNIHandles", "_global_handles").ok();
    let mut found: Vec<(Addr, Storage)> = Vec::new();
    for at in global.into_iter().chain(of_libjvm(classes)) {
        if found.iter().all(|(known, _)| *known != at)
            && let Some(storage) = vm.process.reads().attempt(|| storage(classes, at))
        {
            found.push((at, storage));
        }
    }
    // The VM makes a strong storage of its own at start. Older releases have static variables instead, which the VM's
    // tables do not list.
    if found.iter().all(|(at, storage)| Some(*at) == global || storage.is_weak()) {
        roots.lacks("the VM's own handles");
    }
    if found.iter().all(|(at, _)| Some(*at) != global) {
        roots.lacks("JNI's global handles");
        roots.notes.push(
            "JNI's global handles were not found, so objects that only native code references count as \
                   unreachable"
                .into(),
        );
    }
    let mut missing = BTreeSet::new();
    for (at, storage) in &found {
        // Objects of weak storages may be collected.
        if storage.is_weak() {
            continue;
        }
        let is_global = Some(*at) == global;
        let kind = if is_global { JNI_GLOBAL } else { VM_INTERNAL };
        let some = if is_global { "some of JNI's global handles" } else { "some of the VM's own handles" };
        if !storage.is_whole {
            missing.insert(some);
        }
        for &block in &storage.blocks {
            let Ok(used) = vm.memory.u64(block.wrapping_add(IN_USE)) else {
                missing.insert(some);
                continue;
            };
            for i in (0..SLOTS).filter(|i| used >> i & 1 != 0) {
                let address = block.wrapping_add(i * WORD);
                let Ok(word) = vm.memory.u64(address) else {
                    missing.insert(some);
                    continue;
                };
                let object = classes.encoding.wide(word);
                if !object.is_null() {
                    roots.all.push(Root::new(kind, address, object));
                }
            }
        }
    }
    missing.into_iter().for_each(|some| roots.lacks(some));
}

/// Returns the storage at `at`, if its blocks point back to it.
fn storage(classes: &Classes<'_>, at: Addr) -> Option<Storage> {
    let vm = &classes.vm;
    let name = vm.memory.ptr(at.wrapping_add(NAME)).ok().filter(|name| !name.is_null())?;
    let array = vm.memory.ptr(at.wrapping_add(BLOCKS)).ok().filter(|a| !a.is_null() && a.is_aligned(WORD))?;
    let room = vm.memory.u64(array).ok()?;
    let count = vm.memory.u64(array.wrapping_add(COUNT)).ok()?;
    if count == 0 || count > room || count > limits::MAX_OOP_STORAGE_BLOCKS {
        return None;
    }
    let is_block = |slot: Addr| {
        let block = vm.memory.ptr(slot).ok().filter(|b| !b.is_null() && b.is_aligned(WORD))?;
        (vm.memory.ptr(block.wrapping_add(OWNER)).ok()? == at).then_some(block)
    };
    let first = FIRST_BLOCK.iter().map(|&offset| array.wrapping_add(offset)).find(|&slot| is_block(slot).is_some())?;
    let blocks: Vec<Addr> = (0..count).map_while(|i| is_block(first.wrapping_add(i * WORD))).collect();
    let is_whole = blocks.len() as u64 == count;
    Some(Storage { name: vm.memory.public_text(name, limits::MAX_VM_NAME).ok()?, blocks, is_whole })
}

/// Returns the addresses outside libjvm that its variables point to. Some of them are storages.
fn of_libjvm(classes: &Classes<'_>) -> Vec<Addr> {
    let vm = &classes.vm;
    let Some(module) = vm.process.modules.get(vm.module) else { return Vec::new() };
    let ModuleKind::Elf(image) = &module.kind else { return Vec::new() };
    let mut out = Vec::new();
    for part in image.writable_parts(vm.memory) {
        let part = AddrRange::sized(part.start, part.len().min(limits::MAX_VM_DATA));
        for window in Window::all(vm.process.target(), part) {
            for at in (window.start..window.end).step_by(WORD as usize) {
                let Some(word) = window.word(at).map(Addr::new) else { break };
                if word.is_aligned(WORD) && !word.is_null() && !vm.range.contains(word) {
                    out.push(word);
                }
            }
        }
    }
    out.sort();
    out.dedup();
    out
}
