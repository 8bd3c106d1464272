//! One class: what its objects look like.

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Classes, WORD, external_name};
use crate::runtimes::hotspot::vm::VmError;

/// `Klass::_layout_helper` (klass.hpp): what its bits mean, the same in JDK 8 to 25. The tables have them too; they are
/// written out, as the shape of each class is asked for by them.
mod layout_helper {
    /// The lowest bit of an instance's size: its class needs more than a look at the size.
    pub(super) const SLOW: i32 = 1;
    pub(super) const ARRAY_TAG_SHIFT: u32 = 30;
    pub(super) const OBJECT_ARRAY: i32 = -2;
    pub(super) const HEADER_SHIFT: u32 = 16;
    pub(super) const LOG2_MASK: i32 = 0xff;
    pub(super) const BYTE: i32 = 0xff;
}

/// What a class says of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Klass {
    /// Where it is.
    pub address: Addr,
    /// Its name, as jcmd writes it: `java.lang.String`, `int[]`.
    pub name: String,
    /// How large its objects are.
    pub shape: KlassShape,
    /// Where references stand in its instances.
    pub references: Vec<OopRun>,
    /// What kind of `java.lang.ref.Reference` it is.
    pub reference: Option<ReferenceKind>,
    /// Its class loader, as the VM knows it (ClassLoaderData).
    pub loader: Addr,
}

/// References of an instance that follow one another (OopMapBlock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OopRun {
    /// From the instance's start to the first, in bytes.
    pub offset: u32,
    /// How many.
    pub count: u32,
}

/// How large objects of a class are, and what is special about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KlassShape {
    /// Instances of so many bytes.
    Instance(u64),
    /// `java.lang.Class`: each has its own size, as it holds the static fields of the class that it stands for.
    Mirror {
        /// Where an instance has its size, in words.
        size_at: u64,
    },
    /// `jdk.internal.vm.StackChunk`: the frames of a virtual thread follow its fields.
    StackChunk {
        /// Bytes of its fields.
        size: u64,
        /// Where an instance has the number of words that follow.
        words_at: u64,
    },
    /// Arrays of primitive values.
    TypeArray {
        /// Bytes before the first element.
        header: u64,
        /// Logarithm of an element's bytes.
        log2: u32,
    },
    /// Arrays of references.
    ObjectArray {
        /// Bytes before the first element.
        header: u64,
        /// Logarithm of an element's bytes.
        log2: u32,
    },
    /// There are no objects of it.
    None,
}

/// A kind of `java.lang.ref.Reference`: what it means for its referent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceKind {
    /// Kept as long as memory suffices.
    Soft,
    /// Not kept.
    Weak,
    /// Kept until its finalizer ran.
    Final,
    /// Not kept.
    Phantom,
}

impl ReferenceKind {
    /// Whether it keeps its referent in an ordinary collection.
    pub fn keeps(self) -> bool {
        matches!(self, ReferenceKind::Soft | ReferenceKind::Final)
    }
}

impl Klass {
    /// The class at `at`; `None` where that is none, as far as can be told.
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

    /// The descriptor of an array's elements: `I`, or `L` where they are references.
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

    /// Whether its objects have a length.
    pub fn is_array(&self) -> bool {
        matches!(self.shape, KlassShape::TypeArray { .. } | KlassShape::ObjectArray { .. })
    }
}

/// A class is among its own supers: `_super_check_offset` leads to where, unless it is an interface or deep down,
/// where it leads to the cache of secondary supers (klass.hpp).
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
            let place = vm.static_addr("java_lang_Class", "_oop_size_offset").ok()?;
            return Some(KlassShape::Mirror { size_at: u64::from(vm.memory.u32(place).ok()?) });
        }
        if name == "jdk.internal.vm.StackChunk" {
            let fields = classes.declared_fields(at);
            let words_at = fields.iter().find(|f| f.name == "size" && !f.is_static)?.offset;
            return Some(KlassShape::StackChunk { size, words_at });
        }
    }
    Some(KlassShape::Instance(size))
}

/// Where references stand: blocks of offset and count behind the vtable and the itable (InstanceKlass::start_of_nonstatic_oop_maps).
fn oop_runs(classes: &Classes<'_>, at: Addr) -> Result<Vec<OopRun>, VmError> {
    let vm = &classes.vm;
    let klass = vm.at("InstanceKlass", at);
    let words = |field| klass.signed(field).map(|n| u64::try_from(n).unwrap_or(u64::MAX));
    let (vtable, itable, count) = (words("_vtable_len")?, words("_itable_len")?, words("_nonstatic_oop_map_size")?);
    if vtable.max(itable) > u64::from(limits::MAX_BASE_SIZE) || count > limits::MAX_OOP_MAP_BLOCKS {
        return Err(VmError::Nonsense { what: "a class with too many tables", at });
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
    // 0 of all but references; the other numbers moved between releases, the classes' names did not.
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
