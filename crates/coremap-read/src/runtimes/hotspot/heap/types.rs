//! The types of the heap: numbers of the classes seen, and the sizes of their objects.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::TypeIndex;
use crate::runtimes::hotspot::classes::{Classes, Encoding, Klass, KlassShape, WORD};

const STRING: &str = "java.lang.String";

pub(super) fn is_string(klass: &Klass) -> bool {
    klass.name == STRING
}

struct TypeIndexTable {
    by_address: HashMap<u64, u32>,
    /// From number 1 on. Number 0 is free space, and this heap has no objects for it.
    all: Vec<Arc<Klass>>,
    string: Option<u32>,
}

/// Classes of the objects seen so far.
pub(super) struct Types<'p> {
    classes: Arc<Classes<'p>>,
    table: RwLock<TypeIndexTable>,
    string_form: OnceLock<Option<(u64, u64)>>,
    /// The class of byte arrays, and the bytes before their first element.
    bytes: OnceLock<(u64, u64)>,
}

impl<'p> Types<'p> {
    pub(super) fn new(classes: Arc<Classes<'p>>) -> Types<'p> {
        let table = TypeIndexTable { by_address: HashMap::new(), all: Vec::new(), string: None };
        Types { classes, table: RwLock::new(table), string_form: OnceLock::new(), bytes: OnceLock::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.table.read().unwrap_or_else(PoisonError::into_inner).all.len() + 1
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= limits::MAX_KLASSES
    }

    /// Returns the class with a number. `None` for free space.
    pub(super) fn get(&self, kind: TypeIndex) -> Option<Arc<Klass>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.all.get((kind.0 as usize).checked_sub(1)?).cloned()
    }

    pub(super) fn string(&self) -> Option<TypeIndex> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).string.map(TypeIndex)
    }

    /// Returns the class at `address` with its number, if it can have objects.
    pub(super) fn lookup(&self, address: u64) -> Option<(TypeIndex, Arc<Klass>)> {
        {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(&i) = table.by_address.get(&address) {
                return Some((TypeIndex(i), table.all.get(i as usize - 1)?.clone()));
            }
        }
        let klass = self.classes.klass(Addr::new(address)).filter(|k| k.shape != KlassShape::None)?;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let next = u32::try_from(table.all.len() + 1).ok().filter(|&n| (n as usize) < limits::MAX_KLASSES)?;
        let i = *table.by_address.entry(address).or_insert(next);
        if i == next {
            if is_string(&klass) {
                table.string.get_or_insert(i);
            }
            table.all.push(klass.clone());
        }
        Some((TypeIndex(i), klass))
    }

    /// Returns the offsets of a String's array and of its coder.
    pub(super) fn string_form(&self) -> Option<(u64, u64)> {
        *self.string_form.get_or_init(|| {
            let klass = self.get(self.string()?)?;
            let at = |name| self.classes.field(&klass, name).map(|f| f.offset);
            Some((at("value")?, at("coder")?))
        })
    }

    /// Returns the bytes before the first element of the array at `array`, if it is a byte array.
    pub(super) fn byte_array_header(&self, array: Addr) -> Option<u64> {
        header_of_bytes(&*self.classes.class_of(array)?)
    }

    /// Returns the bytes before the first element in byte arrays of the class at `klass`. `None` if it is another
    /// class.
    #[inline]
    pub(super) fn header_of_bytes(&self, klass: u64) -> Option<u64> {
        if let Some(&(known, header)) = self.bytes.get()
            && known == klass
        {
            return Some(header);
        }
        let header = header_of_bytes(&*self.classes.klass(Addr::new(klass))?)?;
        // Arrays of boolean have the same shape, but no String uses them.
        let _ = self.bytes.set((klass, header));
        Some(header)
    }
}

fn header_of_bytes(klass: &Klass) -> Option<u64> {
    match klass.shape {
        KlassShape::TypeArray { header, log2: 0 } => Some(header),
        _ => None,
    }
}

/// How the size of a class's objects is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All objects have this size in bytes.
    Fixed(u64),
    /// Elements follow the header. The length has 32 bits.
    Counted { header: u64, log2: u32 },
    /// The field at this offset has the size in words.
    Words(u64),
    /// The field at `words_at` has the number of words that follow the fields. After them there is a bit for each
    /// possible reference.
    Chunk { size: u64, words_at: u64 },
}

impl Form {
    pub(super) fn of(shape: KlassShape) -> Option<Form> {
        Some(match shape {
            KlassShape::Instance(size) => Form::Fixed(size),
            KlassShape::Mirror { size_at } => Form::Words(size_at),
            KlassShape::StackChunk { size, words_at } => Form::Chunk { size, words_at },
            KlassShape::TypeArray { header, log2 } | KlassShape::ObjectArray { header, log2 } => {
                Form::Counted { header, log2 }
            }
            KlassShape::None => return None,
        })
    }

    /// Returns the bytes of an object. `word` reads its words at offsets that are multiples of 8. `None` if a word is
    /// missing.
    #[inline(always)]
    pub(super) fn size(self, encoding: &Encoding, word: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let half = |at: u64| Some((word(at & !7)? >> (8 * (at & 4))) as u32);
        Some(match self {
            Form::Fixed(size) => size,
            // 32 bits, shifted by at most 3, cannot overflow.
            Form::Counted { header, log2 } => header + (u64::from(half(encoding.length_at)?) << log2),
            Form::Words(at) => u64::from(half(at)?) * WORD,
            Form::Chunk { size, words_at } => {
                let words = u64::from(half(words_at)?);
                let bits = if encoding.narrow { 2 * words } else { words };
                size + (words + bits.div_ceil(64)) * WORD
            }
        })
    }
}
