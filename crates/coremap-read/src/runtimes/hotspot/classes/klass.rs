//! A class, and the layout of its objects.

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Classes, WORD, external_name};
use crate::runtimes::hotspot::vm::VmError;

/// Bits of `Klass::_layout_helper` (klass.hpp), equal in JDK 8 to 25. The tables have them too, but these constants are
/// needed for every class.
mod layout_helper {
    /// Lowest bit of an instance size. If it is set, the VM allocates objects of the class on its slow path.
    pub(super) const SLOW: i32 = 1;
    pub(super) const ARRAY_TAG_SHIFT: u32 = 30;
    pub(super) const OBJECT_ARRAY: i32 = -2;
    pub(super) const HEADER_SHIFT: u32 = 16;
    pub(super) const LOG2_MASK: i32 = 0xff;
    pub(super) const BYTE: i32 = 0xff;
}

/// A class, with the layout of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Klass {
    /// Address of its Klass.
    pub address: Addr,
    /// The class's name, as jcmd writes it: `java.lang.String`, `int[]`.
    pub name: String,
    /// Size of its objects, and how to read it.
    pub shape: KlassShape,
    /// Positions of references in its instances.
    pub references: Vec<OopRun>,
    /// The kind of `java.lang.ref.Reference`. `None` for all other classes.
    pub reference: Option<ReferenceKind>,
    /// Address of its ClassLoaderData.
    pub loader: Addr,
}

/// Consecutive references in an instance (OopMapBlock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OopRun {
    /// Offset of the first reference in bytes.
    pub offset: u32,
    /// Number of references.
    pub count: u32,
}

/// How the size of a class's objects is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KlassShape {
    /// Instances of this size in bytes.
    Instance(u64),
    /// `java.lang.Class`. Each object has its own size, since it contains the static fields of its class.
    Mirror {
        /// Offset of an instance's size, which is in words.
        size_at: u64,
    },
    /// `jdk.internal.vm.StackChunk`. The frames of a virtual thread follow its fields.
    StackChunk {
        /// Bytes of its fields.
        size: u64,
        /// Offset of the number of words that follow the fields.
        words_at: u64,
    },
    /// Arrays of primitive values.
    TypeArray {
        /// Bytes before the first element.
        header: u64,
        /// Logarithm (base 2) of an element's bytes.
        log2: u32,
    },
    /// Arrays of references.
    ObjectArray {
        /// Bytes before the first element.
        header: u64,
        /// Logarithm (base 2) of an element's bytes.
        log2: u32,
    },
    /// The class has no objects.
    None,
}

/// A kind of `java.lang.ref.Reference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// The referent is retained as long as memory suffices.
    Soft,
    /// The referent is not retained.
    Weak,
    /// The referent is retained until its finalizer has run.
    Final,
    /// The referent is not retained.
    Phantom,
}

impl ReferenceKind {
    /// Whether an ordinary collection retains the referent.
    pub fn keeps(self) -> bool {
        matches!(self, ReferenceKind::Soft | ReferenceKind::Final)
    }
}

impl Klass {
    /// Reads the class at `at`. `None` if it is recognisably no class.
    pub(super) fn read(classes: &Classes<'_>, at: Addr) -> Option<Klass> {
        if at.is_null() || !at.is_aligned(WORD) || !is_klass(classes, at).unwrap_or(false) {
            return None;
        }
        let vm = &classes.vm;
        let klass = vm.at("Klass", at);
        let symbol = classes.symbol(klass.ptr("_name").ok()?).filter(|name| !name.is_empty())?;
        let helper = klass.signed("_layout_helper").ok()? as i32;
        let name = external_name(&symbol);
        let shape = shape(classes, at, &name, helper)?;
        let is_instance = !symbol.starts_with('[');
        let references = if is_instance { oop_runs(classes, at).unwrap_or_default() } else { Vec::new() };
        let reference = if is_instance { reference_kind(classes, at) } else { None };
        let loader = klass.ptr("_class_loader_data").unwrap_or(Addr::NULL);
        Some(Klass { address: at, name, shape, references, reference, loader })
    }

    /// Returns the descriptor of an array's elements: `I`, or `L` for references.
    pub fn element_descriptor(&self) -> &'static str {
        let letters = [
            ("byte[]", "B"),
            ("char[]", "C"),
            ("double[]", "D"),
            ("float[]", "F"),
            ("int[]", "I"),
            ("long[]", "J"),
            ("short[]", "S"),
            ("boolean[]", "Z"),
        ];
        letters.iter().find(|(name, _)| *name == self.name).map_or("L", |(_, letter)| letter)
    }

    /// Whether its objects are arrays.
    pub fn is_array(&self) -> bool {
        matches!(self.shape, KlassShape::TypeArray { .. } | KlassShape::ObjectArray { .. })
    }
}

/// Whether there is a class at `at`: it must be among its own supers. `_super_check_offset` leads to that entry. For
/// interfaces and deep classes, it leads to the cache of secondary supers instead (klass.hpp).
fn is_klass(classes: &Classes<'_>, at: Addr) -> Result<bool, VmError> {
    let (vm, klass) = (&classes.vm, classes.vm.at("Klass", at));
    let offset = klass.number("_super_check_offset")?;
    let cache = vm.tables.offset("Klass", "_secondary_super_cache")?;
    if offset == cache {
        return Ok(true);
    }
    let first = vm.tables.offset("Klass", "_primary_supers[0]")?;
    let depth = vm.constant("Klass::_primary_super_limit").and_then(|n| u64::try_from(n).ok()).unwrap_or(8);
    let within = offset.checked_sub(first).is_some_and(|o| o.is_multiple_of(WORD) && o / WORD < depth);
    Ok(within && vm.memory.ptr(at.wrapping_add(offset)).map_err(VmError::fault("Klass", "_primary_supers"))? == at)
}

fn shape(classes: &Classes<'_>, at: Addr, name: &str, helper: i32) -> Option<KlassShape> {
    use layout_helper as lh;
    let vm = &classes.vm;
    if helper < 0 {
        let header = u64::from((helper >> lh::HEADER_SHIFT & lh::BYTE) as u8);
        let log2 = (helper & lh::LOG2_MASK) as u32;
        let sane = log2 <= 3 && header >= classes.encoding.min_object;
        let of_objects = helper >> lh::ARRAY_TAG_SHIFT == lh::OBJECT_ARRAY;
        let array =
            if of_objects { KlassShape::ObjectArray { header, log2 } } else { KlassShape::TypeArray { header, log2 } };
        return sane.then_some(array);
    }
    if helper == 0 {
        return Some(KlassShape::None);
    }
    let size = (helper & !(WORD as i32 - 1)) as u64;
    if size < classes.encoding.min_object || size > u64::from(limits::MAX_BASE_SIZE) {
        return None;
    }
    if helper & lh::SLOW != 0 {
        if name == "java.lang.Class" {
            let addr = vm.static_addr("java_lang_Class", "_oop_size_offset").ok()?;
            return Some(KlassShape::Mirror { size_at: u64::from(vm.memory.u32(addr).ok()?) });
        }
        if name == "jdk.internal.vm.StackChunk" {
            let fields = classes.declared_fields(at);
            let words_at = fields.iter().find(|f| f.name == "size" && !f.is_static)?.offset;
            return Some(KlassShape::StackChunk { size, words_at });
        }
    }
    Some(KlassShape::Instance(size))
}

/// Reads the positions of references: blocks of offset and count after the vtable and the itable
/// (InstanceKlass::start_of_nonstatic_oop_maps).
fn oop_runs(classes: &Classes<'_>, at: Addr) -> Result<Vec<OopRun>, VmError> {
    let vm = &classes.vm;
    let klass = vm.at("InstanceKlass", at);
    let words = |field| klass.signed(field).map(|n| u64::try_from(n).unwrap_or(u64::MAX));
    let (vtable, itable, count) = (words("_vtable_len")?, words("_itable_len")?, words("_nonstatic_oop_map_size")?);
    if vtable.max(itable) > u64::from(limits::MAX_BASE_SIZE) || count > limits::MAX_OOP_MAP_BLOCKS {
        return Err(VmError::Invalid { what: "a class with too many tables", at });
    }
    let first = at.wrapping_add(vm.size_of("InstanceKlass")?).wrapping_add((vtable + itable) * WORD);
    let bytes =
        vm.memory.bytes(first, (count * WORD) as usize).map_err(VmError::fault("InstanceKlass", "OopMapBlock"))?;
    let run = |block: &[u8; 8]| {
        let word = u64::from_le_bytes(*block);
        OopRun { offset: word as u32, count: (word >> 32) as u32 }
    };
    Ok(bytes.as_chunks::<8>().0.iter().map(run).collect())
}

fn reference_kind(classes: &Classes<'_>, at: Addr) -> Option<ReferenceKind> {
    let klass = classes.vm.at("InstanceKlass", at);
    // The number is 0 for all other classes. The other numbers changed between releases; the class names did not.
    if klass.number("_reference_type").is_ok_and(|kind| kind == 0) {
        return None;
    }
    classes.with_superclasses(at).find_map(|at| {
        let name = classes.symbol(classes.vm.at("Klass", at).ptr("_name").ok()?)?;
        Some(match name.as_str() {
            "java/lang/ref/SoftReference" => ReferenceKind::Soft,
            "java/lang/ref/WeakReference" => ReferenceKind::Weak,
            "java/lang/ref/FinalReference" => ReferenceKind::Final,
            "java/lang/ref/PhantomReference" => ReferenceKind::Phantom,
            _ => return None,
        })
    })
}
