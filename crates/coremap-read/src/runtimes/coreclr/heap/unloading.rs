//! Load contexts that are being unloaded, and the loader allocators that they wait for.
//!
//! `AssemblyLoadContext.Unload` makes a strong handle for its context. The runtime frees the handle together with the
//! context's loader allocator, so the context lives exactly as long as something references that allocator. The handle
//! alone explains nothing.
//!
//! Sources: src/coreclr: binder/customassemblybinder.cpp (PrepareForLoadContextRelease), vm/loaderallocator.hpp
//! (AssemblyLoaderAllocator::m_binderToRelease); System.Private.CoreLib: AssemblyLoadContext.InitiateUnload.

use std::collections::{HashMap, HashSet};

use crate::addr::{Addr, WORD};
use crate::runtimes::api::Handle;
use crate::runtimes::coreclr::types::TypeSystem;

/// Base class of every load context, and its fields.
const CONTEXT: &str = "System.Runtime.Loader.AssemblyLoadContext";
const BINDER: &str = "_nativeAssemblyLoadContext";
const STATE: &str = "_state";

/// AssemblyLoadContext.InternalState.Unloading.
const UNLOADING: u32 = 1;

/// Maximum number of words of a CustomAssemblyBinder and of an AssemblyLoaderAllocator that are compared. Both are
/// smaller in all versions. No table has the offsets: each structure must reference the other.
const BINDER_WORDS: u64 = 128;
const ALLOCATOR_WORDS: u64 = 512;

/// A load context that is being unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct Unloading {
    /// The strong handle that `Unload` made.
    pub(in crate::runtimes::coreclr) handle: Addr,
    /// The context's object.
    pub(in crate::runtimes::coreclr) context: Addr,
    /// The System.Reflection.LoaderAllocator object that keeps it alive.
    pub(in crate::runtimes::coreclr) allocator: Addr,
}

/// Finds unloading contexts among the objects of `handles`. `loaders`: collectible loader allocators, each with its
/// object.
pub(super) fn unloading(types: &TypeSystem<'_>, handles: &[Handle], loaders: &[(Addr, Addr)]) -> Vec<Unloading> {
    if loaders.is_empty() {
        return Vec::new();
    }
    let mut places: HashMap<Addr, Option<(u64, u64)>> = HashMap::new();
    let mut open: HashMap<Addr, Vec<(Addr, Addr)>> = HashMap::new();
    let mask = !types.mark_bits();
    for handle in handles.iter().filter(|handle| handle.kind.keeps()) {
        let Ok(word) = types.memory.u64(handle.object) else { continue };
        let method_table = Addr::new(word & mask);
        let Some((binder, state)) = *places.entry(method_table).or_insert_with(|| fields(types, method_table)) else {
            continue;
        };
        if types.memory.u32(handle.object.saturating_add(state)).ok() != Some(UNLOADING) {
            continue;
        }
        if let Ok(binder) = types.memory.ptr(handle.object.saturating_add(binder)) {
            open.entry(binder).or_default().push((handle.address, handle.object));
        }
    }
    let mut out = Vec::new();
    for &(native, allocator) in loaders {
        let words = words(types, native, ALLOCATOR_WORDS);
        let Some(binder) = words.iter().copied().find(|word| open.contains_key(word)) else { continue };
        let of_binder = self::words(types, binder, BINDER_WORDS);
        if !of_binder.contains(&native) {
            continue;
        }
        let contexts = open.get(&binder).into_iter().flatten();
        let of_unload = contexts.filter(|(handle, _)| of_binder.contains(handle));
        out.extend(of_unload.map(|&(handle, context)| Unloading { handle, context, allocator }));
    }
    out
}

/// Offsets of the binder and the state in objects of a type. `None` if it is no load context.
fn fields(types: &TypeSystem<'_>, method_table: Addr) -> Option<(u64, u64)> {
    let mut bases = types.bases(method_table).into_iter();
    bases.find(|at| types.display_name(*at) == CONTEXT)?;
    let all = types.object_fields(method_table);
    let offset = |name: &str| all.iter().find(|field| types.field_name(field) == name).map(|field| field.offset);
    Some((offset(BINDER)?, offset(STATE)?))
}

/// The non-zero words of a structure.
fn words(types: &TypeSystem<'_>, at: Addr, count: u64) -> HashSet<Addr> {
    let words = (0..count).map_while(|i| types.memory.ptr(at.checked_add(WORD.saturating_mul(i))?).ok());
    words.filter(|word| !word.is_null()).collect()
}
