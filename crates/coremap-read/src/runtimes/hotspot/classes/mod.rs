//! Java's classes in the VM's structures: Klass and its subclasses, with their names, fields and methods.
//!
//! src/hotspot/share/oops: klass.hpp, instanceKlass.hpp, arrayKlass.hpp, symbol.hpp, fieldInfo.hpp, constantPool.hpp,
//! method.hpp, constMethod.hpp.

mod encoding;
mod fields;
mod initialization;
mod klass;
mod loaders;
mod methods;
mod names;
mod texts;
mod unsigned5;

pub use encoding::Encoding;
pub(crate) use encoding::z_prefix;
pub use fields::JavaField;
pub use initialization::Initialization;
pub use klass::{Klass, KlassShape, OopRun, ReferenceKind};
pub use loaders::Loader;
pub use methods::MethodInfo;
pub use names::{external_name, external_signature};
pub(crate) use unsigned5::Unsigned5;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crate::addr::Addr;
pub(crate) use crate::addr::WORD;
use crate::bytes;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::vm::{Vm, VmError};
use crate::targets::reads::Script;

/// The classes of one VM. They are read on demand and cached.
pub struct Classes<'p> {
    /// The VM.
    pub vm: Arc<Vm<'p>>,
    /// How references and class pointers are stored.
    pub encoding: Encoding,
    klasses: RwLock<HashMap<Addr, Option<Arc<Klass>>>>,
    fields: RwLock<HashMap<Addr, Arc<Vec<JavaField>>>>,
    methods: Mutex<HashMap<Addr, Option<Arc<MethodInfo>>>>,
    loaders: OnceLock<Vec<Loader>>,
    /// Whether some loaders or classes could not be read.
    lost_loaders: AtomicBool,
    /// ClassLoaderData of loaders that are never collected.
    permanent: OnceLock<HashSet<Addr>>,
    initializing: OnceLock<Vec<Initialization>>,
}

impl<'p> Classes<'p> {
    /// Makes a reader for the classes of `vm`.
    ///
    /// # Errors
    /// If the VM's tables lack what the encoding of references and class pointers needs.
    pub fn new(vm: Arc<Vm<'p>>) -> Result<Classes<'p>, VmError> {
        let encoding = Encoding::read(&vm)?;
        let (klasses, fields, methods, loaders, lost_loaders, permanent, initializing) = Default::default();
        Ok(Classes { vm, encoding, klasses, fields, methods, loaders, lost_loaders, permanent, initializing })
    }

    /// Returns the text of the Symbol at `at` as UTF-8, with control characters unescaped. `None` if it is no Symbol:
    /// the text of one has no zero byte (JVMS 4.4.7).
    pub fn symbol(&self, at: Addr) -> Option<String> {
        if at.is_null() {
            return None;
        }
        let symbol = self.vm.at("Symbol", at);
        let body = self.vm.process.reads().attempt(|| {
            let len = usize::try_from(symbol.number("_length").ok()?).ok()?.min(limits::MAX_SYMBOL_BYTES);
            let at = symbol.addr_of("_body").ok()?;
            let body = self.vm.memory.look(at, len).ok().filter(|body| !body.contains(&0))?;
            self.vm.memory.keep_name(at, body.len() as u64, Script::Java);
            Some(body)
        })?;
        Some(bytes::text(&body))
    }

    /// Returns the names of the methods read so far, with class names.
    pub fn names_of_methods(&self) -> Vec<String> {
        let methods = self.methods.lock().unwrap_or_else(PoisonError::into_inner);
        methods.values().flatten().map(|method| method.name.clone()).collect()
    }

    /// Returns the Symbol at `index` of a constant pool. `None` if the pool has no such entry.
    pub fn pool_symbol(&self, pool: Addr, index: u64) -> Option<String> {
        let length = self.vm.at("ConstantPool", pool).number("_length").ok();
        if length.is_some_and(|length| index >= length) {
            return None;
        }
        self.symbol(self.pool_word(pool, index).ok()?)
    }

    /// Reads the word at `index` of a constant pool. The entries follow the ConstantPool.
    fn pool_word(&self, pool: Addr, index: u64) -> Result<Addr, VmError> {
        let entries = pool.wrapping_add(self.vm.size_of("ConstantPool")?);
        self.vm.memory.ptr(entries.wrapping_add(index * WORD)).map_err(VmError::fault("ConstantPool", "entry"))
    }

    /// Returns the object of the OopHandle at `at`. `NULL` if the handle is empty.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn handle(&self, at: Addr) -> Result<Addr, VmError> {
        let fault = VmError::fault("OopHandle", "_obj");
        let slot = self.vm.memory.ptr(at).map_err(fault)?;
        if slot.is_null() {
            return Ok(Addr::NULL);
        }
        self.vm.memory.u64(slot).map_err(fault).map(|word| self.encoding.wide(word))
    }

    /// Returns the object in field `field` of the VM's type `kind`. `at` is the field's address. The field is an
    /// OopHandle, or a plain pointer in older releases.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn field_of_vm(&self, kind: &str, field: &str, at: Addr) -> Result<Addr, VmError> {
        if self.vm.tables.field(kind, field)?.type_name.contains("OopHandle") {
            return self.handle(at);
        }
        let word = self.vm.memory.u64(at).map_err(VmError::fault(kind, field))?;
        Ok(self.encoding.wide(word))
    }

    /// Returns the reference in the object field at `at`.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn reference(&self, at: Addr) -> Result<Addr, VmError> {
        let fault = VmError::fault("oop", "field");
        if self.encoding.narrow {
            self.vm.memory.u32(at).map_err(fault).map(|word| self.encoding.narrow(word))
        } else {
            self.vm.memory.u64(at).map_err(fault).map(|word| self.encoding.wide(word))
        }
    }

    /// Returns the offset in bytes, in a `java.lang.Class`, of the pointer to its class.
    pub fn klass_at(&self) -> Option<u64> {
        let offset = self.vm.static_number("java_lang_Class", "_klass_offset");
        offset.ok().map(|at| at & u64::from(u32::MAX))
    }

    /// Returns the class of the object at `object`. `None` if there is no object.
    pub fn class_of(&self, object: Addr) -> Option<Arc<Klass>> {
        self.vm.process.reads().attempt(|| self.klass(self.encoding.klass_of(self.vm.memory, object)?))
    }

    /// Returns the class at `at`, if it is one.
    pub fn klass(&self, at: Addr) -> Option<Arc<Klass>> {
        if let Some(known) = self.klasses.read().unwrap_or_else(PoisonError::into_inner).get(&at) {
            return known.clone();
        }
        let made = self.vm.process.reads().attempt(|| Klass::read(self, at)).map(Arc::new);
        // Failures are not cached: there may be any number of addresses without a class.
        if made.is_some() {
            let mut known = self.klasses.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() < limits::MAX_KLASSES {
                known.insert(at, made.clone());
            }
        }
        made
    }

    /// Returns the fields that the class at `at` itself declares. Fields that the VM injected come last.
    pub fn declared_fields(&self, at: Addr) -> Arc<Vec<JavaField>> {
        if let Some(known) = self.fields.read().unwrap_or_else(PoisonError::into_inner).get(&at) {
            return known.clone();
        }
        let made = Arc::new(self.read_fields(at).unwrap_or_default());
        let mut fields = self.fields.write().unwrap_or_else(PoisonError::into_inner);
        fields.insert(at, made.clone());
        made
    }

    /// Finds an instance field of a class by name, its own or inherited.
    pub fn field(&self, klass: &Klass, name: &str) -> Option<JavaField> {
        let of = |at| {
            let declared = self.declared_fields(at);
            declared.iter().find(|f| f.name == name && !f.is_static).cloned()
        };
        self.with_superclasses(klass.address).find_map(of)
    }

    /// Iterates over a class and its superclasses, up to `java.lang.Object`.
    pub fn with_superclasses(&self, at: Addr) -> impl Iterator<Item = Addr> + '_ {
        let up = |at: &Addr| self.vm.at("Klass", *at).ptr("_super").ok().filter(|up| !up.is_null());
        std::iter::successors(Some(at).filter(|at| !at.is_null()), up).take(limits::MAX_JAVA_SUPERCLASSES)
    }
}
