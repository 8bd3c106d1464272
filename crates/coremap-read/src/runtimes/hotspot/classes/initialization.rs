//! Classes whose static initialiser runs, and their initialisation locks.
//!
//! A thread that needs a class which another thread initialises waits on the class's initialisation lock
//! (`InstanceKlass::initialize_impl`). The lock is an `int[0]` in an injected field of the class's mirror. The VM's
//! tables do not have the field's offset, and in JDK 17 it is that of `componentType`, so all references before the
//! static fields of the mirror are compared.

use std::sync::Arc;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Classes, Klass, WORD};

/// Class of the locks.
const LOCK: &str = "int[]";

/// A class that a thread initialises.
#[derive(Clone, Debug)]
pub struct Initialization {
    /// The class.
    pub class: Arc<Klass>,
    /// Its `java.lang.Class`.
    pub mirror: Addr,
    /// The JavaThread that runs the initialiser.
    pub thread: Addr,
    /// References in the mirror's own fields. One is the lock.
    fields: Vec<Addr>,
}

impl Classes<'_> {
    /// Returns the initialisation that `object` is the lock of.
    pub fn initialization(&self, object: Addr) -> Option<Initialization> {
        // Programs wait on arrays of their own too. Without this, their cores would need all classes.
        let length = self.vm.memory.u32(object.wrapping_add(self.encoding.length_at)).ok();
        if length != Some(0) || self.class_of(object).is_none_or(|class| class.name != LOCK) {
            return None;
        }
        self.initializing
            .get_or_init(|| self.read_initializing())
            .iter()
            .find(|of| of.fields.contains(&object))
            .cloned()
    }

    fn read_initializing(&self) -> Vec<Initialization> {
        let Some(state) = self.vm.constant("InstanceKlass::being_initialized") else { return Vec::new() };
        let all = self.loaders_if_complete().iter().flat_map(|loader| &loader.classes);
        let running = all.filter(|class| {
            // One byte in all releases, of a type without a width in the tables of newer ones.
            let at = self.vm.at("InstanceKlass", **class).addr_of("_init_state").ok();
            let mut now = [0];
            at.is_some_and(|at| self.vm.memory.read(at, &mut now).is_ok()) && i64::from(now[0]) == state
        });
        running.take(limits::MAX_INITIALIZING).filter_map(|class| self.read_initialization(*class)).collect()
    }

    fn read_initialization(&self, at: Addr) -> Option<Initialization> {
        let class = self.klass(at).filter(|class| !class.is_array())?;
        let thread = self.vm.at("InstanceKlass", at).ptr("_init_thread").ok()?;
        let mirror = self.mirror(at)?;
        // Static fields follow the fields of java.lang.Class.
        let of_mirror = self.encoding.klass_of(self.vm.memory, mirror)?;
        let helper = self.vm.at("Klass", of_mirror).number("_layout_helper").ok()?;
        let size = Some(helper & !(WORD - 1)).filter(|size| *size <= limits::MAX_MIRROR_BYTES)?;
        let slots = (self.encoding.min_object..size).step_by(self.encoding.unit() as usize);
        let fields = slots.filter_map(|offset| self.reference(mirror.wrapping_add(offset)).ok());
        Some(Initialization { fields: fields.filter(|at| !at.is_null()).collect(), class, mirror, thread })
    }
}
