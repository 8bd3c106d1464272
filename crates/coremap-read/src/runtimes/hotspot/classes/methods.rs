//! Methods: their names, bytecodes and lines.

use std::sync::{Arc, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::names::arguments;
use crate::runtimes::hotspot::classes::{Classes, Unsigned5, external_name, external_signature};

/// `JVM_ACC_NATIVE` (JVMS 4.6).
const NATIVE: u64 = 0x100;

/// The ConstMethod flag of methods with a line number table, if the VM's constants lack it.
const HAS_LINES: i64 = 1;

/// Maximum size of a line number table in bytes. Methods have at most 64 KiB of bytecodes.
const MOST_LINE_BYTES: u64 = 1 << 18;

/// The byte of a line number table that two whole numbers follow.
const ESCAPE: u8 = 0xff;

/// A method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// Address of its Method.
    pub address: Addr,
    /// The method's name, as jstack writes it: `java.lang.Thread.sleep(long)`.
    pub name: String,
    /// Types of arguments and result, as in class files: `(J)V`.
    pub descriptor: String,
    /// The return type in Java's syntax.
    pub returns: String,
    /// Address of its class.
    pub holder: Addr,
    /// Source file of its class, as javac recorded it: a name without a path.
    pub file: Option<String>,
    /// Address range of its bytecodes.
    pub code: AddrRange,
    /// Whether the method is native.
    pub is_native: bool,
    /// Start of its line number table.
    lines: Option<Addr>,
}

impl Classes<'_> {
    /// Returns the method at `at`, if it is one.
    pub fn method(&self, at: Addr) -> Option<Arc<MethodInfo>> {
        let known = self.methods.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned();
        if let Some(known) = known {
            return known;
        }
        let made = self.vm.process.reads().attempt(|| self.read_method(at)).map(Arc::new);
        if made.is_some() {
            self.methods.lock().unwrap_or_else(PoisonError::into_inner).insert(at, made.clone());
        }
        made
    }

    fn read_method(&self, at: Addr) -> Option<MethodInfo> {
        let vm = &self.vm;
        let method = vm.at("Method", at);
        let constant = vm.at("ConstMethod", method.ptr("_constMethod").ok()?);
        let pool = constant.ptr("_constants").ok()?;
        let pool_view = vm.at("ConstantPool", pool);
        let holder = pool_view.ptr("_pool_holder").ok()?;
        let mut class = external_name(&self.symbol(vm.at("Klass", holder).ptr("_name").ok()?)?);
        if self.is_anonymous(holder) {
            class.push_str(&format!("/{:#018x}", holder.get()));
        }
        let name = self.pool_symbol(pool, constant.number("_name_index").ok()?)?;
        let descriptor = self.pool_symbol(pool, constant.number("_signature_index").ok()?)?;
        let code = AddrRange::sized(
            constant.addr.wrapping_add(vm.size_of("ConstMethod").ok()?),
            constant.number("_code_size").ok()?,
        );
        let flags = ["_flags._flags", "_flags"].iter().find_map(|field| constant.number(field).ok()).unwrap_or(0);
        let bit = ["ConstMethodFlags::_misc_has_linenumber_table", "ConstMethod::_has_linenumber_table"];
        let bit = bit.iter().find_map(|name| vm.constant(name)).unwrap_or(HAS_LINES) as u64;
        let has_lines = flags & bit != 0;
        let is_native = method.number("_access_flags").is_ok_and(|flags| flags & NATIVE != 0);
        // In JDK 11 the class has it.
        let index = pool_view.number("_source_file_name_index");
        let index = index.or_else(|_| vm.at("InstanceKlass", holder).number("_source_file_name_index"));
        let file = index.ok().filter(|&index| index != 0).and_then(|index| self.pool_symbol(pool, index));
        let name = format!("{class}.{name}({})", arguments(&descriptor));
        let returns = descriptor.rsplit_once(')').map(|(_, returns)| external_signature(returns)).unwrap_or_default();
        let lines = has_lines.then_some(code.end);
        Some(MethodInfo { address: at, name, descriptor, returns, holder, file, code, is_native, lines })
    }

    /// Whether a class was made by `Unsafe.defineAnonymousClass`, which JDK 15 replaced by hidden classes. A hidden
    /// class has an address in its name; here the address of the Klass is added (Klass::external_name).
    fn is_anonymous(&self, klass: Addr) -> bool {
        let bits = ["InstanceKlass::_misc_is_anonymous", "InstanceKlass::_misc_is_unsafe_anonymous"];
        let bit = bits.iter().find_map(|name| self.vm.constant(name));
        let flags = || self.vm.at("InstanceKlass", klass).number("_misc_flags").ok();
        bit.is_some_and(|bit| flags().is_some_and(|flags| flags & bit as u64 != 0))
    }

    /// Returns the name of a class's module: `java.base`. `None` for classes on the class path, whose module is
    /// unnamed. It is read through `Class::module`, since ModuleEntry is not in the tables.
    pub fn module_of(&self, klass: Addr) -> Option<String> {
        let follow = |object: Addr, field: &str| {
            let at = object.wrapping_add(self.field(&*self.class_of(object)?, field)?.offset);
            self.keep_class(object);
            self.keep_reference(at);
            self.reference(at).ok().filter(|at| !at.is_null())
        };
        let module = follow(self.mirror(klass)?, "module")?;
        self.name(follow(module, "name")?, limits::MAX_VM_NAME)
    }

    /// Returns the source line of a method's bytecode at index `bci`.
    pub fn line(&self, method: &MethodInfo, bci: u32) -> Option<u32> {
        let start = method.lines?;
        let len = self.vm.memory.readable(start, MOST_LINE_BYTES);
        // The size of the table is known only from its end.
        let bytes = self.vm.memory.look(start, len as usize).ok()?;
        let mut numbers = Unsigned5::new(&bytes, 0, self.vm.major);
        let (mut at, mut line) = (0_i32, 0_i32);
        // Rows need not be in order, so the last bytecode at or before `bci` counts.
        let (mut best, mut exact): (Option<(i32, i32)>, Option<i32>) = (None, None);
        loop {
            match numbers.byte()? {
                0 => break,
                ESCAPE => {
                    at = at.wrapping_add(numbers.signed()?);
                    line = line.wrapping_add(numbers.signed()?);
                }
                both => {
                    at = at.wrapping_add(i32::from(both >> 3));
                    line = line.wrapping_add(i32::from(both & 7));
                }
            }
            if i64::from(at) == i64::from(bci) {
                exact = exact.or(Some(line));
            }
            if i64::from(at) < i64::from(bci) && best.is_none_or(|(known, _)| at >= known) {
                best = Some((at, line));
            }
        }
        self.vm.memory.keep(start, numbers.at as u64);
        exact.or(best.map(|(_, line)| line)).and_then(|line| u32::try_from(line).ok())
    }
}
