//! Class loaders with their classes, from the list of ClassLoaderData at `ClassLoaderDataGraph::_head`.

use std::sync::atomic::Ordering;

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::hotspot::classes::{Classes, Klass};
use crate::runtimes::hotspot::vm::VmError;

/// A class loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loader {
    /// Address of its ClassLoaderData.
    pub data: Addr,
    /// The `java.lang.ClassLoader` object. `NULL` for the bootstrap loader.
    pub object: Addr,
    /// Whether it belongs to a single hidden class, and lives as long as the mirror of that class.
    pub of_one_class: bool,
    /// Whether it is never collected: the bootstrap, platform and application loaders.
    pub permanent: bool,
    /// Addresses of its classes.
    pub classes: Vec<Addr>,
}

/// Prefix of the JDK's own loaders that are never collected.
const BUILT_IN: &str = "jdk.internal.loader.ClassLoaders$";

impl Classes<'_> {
    /// Returns all class loaders with their classes, the newest first.
    pub fn loaders(&self) -> &[Loader] {
        self.loaders.get_or_init(|| {
            let _phase = self.vm.process.enter(Phase::Types);
            let mut out = Vec::new();
            if let Err(e) = self.read_loaders(&mut out) {
                self.lost_loaders.store(true, Ordering::Relaxed);
                self.vm.process.diag.partial(WarningCode::Hotspot, format!("{}: class loaders: {e}", self.vm.name()));
            }
            out
        })
    }

    /// The class loaders if all can be read, else none. Adds no warning if the list cannot be read, because callers
    /// only want them for a detail.
    pub fn loaders_if_complete(&self) -> &[Loader] {
        if self.loaders.get().is_none() {
            let _phase = self.vm.process.enter(Phase::Types);
            let mut out = Vec::new();
            if self.read_loaders(&mut out).is_err() {
                return &[];
            }
            self.loaders.get_or_init(|| out);
        }
        if self.has_all_loaders() { self.loaders() } else { &[] }
    }

    /// Whether all class loaders and their classes could be read.
    pub fn has_all_loaders(&self) -> bool {
        self.loaders();
        !self.lost_loaders.load(Ordering::Relaxed)
    }

    fn read_loaders(&self, out: &mut Vec<Loader>) -> Result<(), VmError> {
        let walks = Walks::new(Phase::Types, limits::MAX_CLASS_LOADERS + limits::MAX_KLASSES);
        let mut walk = walks.begin();
        let mut data = self.vm.static_ptr("ClassLoaderDataGraph", "_head")?;
        while !data.is_null() {
            if let Err(e) = walk.step(data) {
                self.lost_loaders.store(true, Ordering::Relaxed);
                self.vm
                    .process
                    .diag
                    .partial(WarningCode::Hotspot, format!("{}: the list of class loaders {e}", self.vm.name()));
                break;
            }
            let view = self.vm.at("ClassLoaderData", data);
            let object = self.handle(view.addr_of("_class_loader")?).unwrap_or(Addr::NULL);
            // The flag of loaders of a single hidden class. Up to JDK 14 they were for anonymous classes.
            let flag = ["_has_class_mirror_holder", "_is_unsafe_anonymous", "_is_anonymous"];
            let of_one_class =
                flag.iter().find(|f| view.has(f)).is_some_and(|f| view.number(f).is_ok_and(|v| v & 0xff != 0));
            let built_in = || object.is_null() || self.class_of(object).is_some_and(|k| k.name.starts_with(BUILT_IN));
            let permanent = !of_one_class && built_in();
            let mut loader = Loader { data, object, of_one_class, permanent, classes: Vec::new() };
            let mut klass = view.ptr("_klasses")?;
            let mut inner = walks.begin();
            while !klass.is_null() {
                if let Err(e) = inner.step(klass) {
                    self.lost_loaders.store(true, Ordering::Relaxed);
                    self.vm
                        .process
                        .diag
                        .partial(WarningCode::Hotspot, format!("{}: the list of classes {e}", self.vm.name()));
                    break;
                }
                loader.classes.push(klass);
                klass = self.vm.at("Klass", klass).ptr("_next_link")?;
            }
            out.push(loader);
            data = view.ptr("_next")?;
        }
        Ok(())
    }
}

impl Classes<'_> {
    /// Returns the mirror of a class whose loader may be collected. Its instances keep the mirror alive. `None` if only
    /// the VM itself does.
    pub fn collectible_mirror(&self, klass: &Klass) -> Option<Addr> {
        let permanent = self.permanent.get_or_init(|| {
            self.loaders().iter().filter(|loader| loader.permanent).map(|loader| loader.data).collect()
        });
        if klass.loader.is_null() || permanent.contains(&klass.loader) { None } else { self.mirror(klass.address) }
    }

    /// Returns the `java.lang.Class` of the class at `at`.
    pub fn mirror(&self, at: Addr) -> Option<Addr> {
        let view = self.vm.at("Klass", at);
        self.handle(view.addr_of("_java_mirror").ok()?).ok().filter(|mirror| !mirror.is_null())
    }

    /// Returns the array of objects to which constants of a class were resolved.
    pub fn resolved_references(&self, at: Addr) -> Option<Addr> {
        let pool = self.vm.at("InstanceKlass", at).ptr("_constants").ok()?;
        let cache = self.vm.at("ConstantPool", pool).ptr("_cache").ok().filter(|cache| !cache.is_null())?;
        let handle = self.vm.at("ConstantPoolCache", cache).addr_of("_resolved_references").ok()?;
        self.handle(handle).ok().filter(|array| !array.is_null())
    }
}
