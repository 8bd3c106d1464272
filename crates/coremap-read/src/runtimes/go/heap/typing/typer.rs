//! The search for the types of objects: it starts with those that the runtime records, and follows typed fields.

use std::collections::HashMap;
use std::sync::Arc;

use super::fields::Leads;
use super::interfaces::Interfaces;
use super::sites;
use super::{Census, Grade, Key, Masks, PointerFields, Slot, Slots, TINY};
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::go::code::Code;
use crate::runtimes::go::goroutines::{Channel, List};
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;
use crate::runtimes::go::types::{TypeKind, Types};

/// Maximum number of passes over memory without types. Each may type objects that lead to further ones.
const PASSES: usize = 3;

/// Maximum number of tables of a map.
const MAX_TABLES: u64 = 1 << 24;

/// Offset in a map up to 1.23 of the base-2 logarithm of its number of buckets.
const B: u64 = 9;

struct Typer<'r, 'p> {
    runtime: &'r Runtime<'p>,
    memory: &'r dyn Memory,
    types: &'r Types<'p>,
    code: &'r Code<'p>,
    slots: &'r Slots,
    masks: Masks<'r, 'p>,
    fields: PointerFields,
    interfaces: Interfaces,
    out: Census,
    /// Grade of each slot that has a type.
    grades: Vec<Grade>,
    tiny_grades: HashMap<Addr, Grade>,
    /// Objects whose fields were not followed yet.
    todo: Vec<(Slot, Key)>,
}

/// Types all objects.
pub(in crate::runtimes::go) fn census(
    runtime: &Runtime<'_>,
    types: &Types<'_>,
    code: &Code<'_>,
    list: &List,
    slots: &Slots,
) -> Census {
    let count = slots.count;
    let mut typer = Typer {
        runtime,
        memory: runtime.memory(),
        types,
        code,
        slots,
        masks: Masks::new(runtime),
        fields: PointerFields::default(),
        interfaces: Interfaces::default(),
        out: Census { slots: vec![0; count], kinds: vec![(Key::Text, "Free".into())], ..Census::default() },
        grades: vec![Grade::Shape; count],
        tiny_grades: HashMap::new(),
        todo: Vec::new(),
    };
    typer.out.grades.push([0; 3]);
    if types.are_readable() {
        typer.headers();
        typer.finalizers();
        typer.channels(list);
        typer.follow();
        for section in runtime.proof.sections.variables() {
            typer.scan(section);
        }
        for g in &list.all {
            typer.scan(g.used_stack());
        }
        typer.follow();
        for _ in 0..PASSES {
            if typer.untyped() == 0 {
                break;
            }
        }
        typer.shapes();
    }
    typer.rest();
    typer.out
}

impl Typer<'_, '_> {
    /// Number of a kind, made on first use.
    fn kind(&mut self, key: Key) -> u32 {
        if let Some(kind) = self.out.by_key.get(&key) {
            return *kind;
        }
        let name = self.name(key);
        let kind = self.out.kinds.len() as u32;
        self.out.kinds.push((key, name));
        self.out.grades.push([0; 3]);
        self.out.by_key.insert(key, kind);
        kind
    }

    fn name(&self, key: Key) -> Arc<str> {
        let of = |at: Addr| self.types.get(at).map_or_else(|| format!("type {at}").into(), |t| t.name.clone());
        match key {
            Key::One(at) => of(at),
            Key::Array(at) => format!("[]{}", of(at)).into(),
            Key::Chan(at) => format!("chan {}", of(at)).into(),
            Key::Closure(at) => {
                let func = self.code.functions().and_then(|functions| functions.at(at));
                func.map_or_else(|| format!("closure {at}"), |func| format!("closure {}", func.name)).into()
            }
            Key::Text => "string data".into(),
            Key::MapPart => "map.table".into(),
            Key::Untyped(size, true) => format!("(no pointers, {size} bytes)").into(),
            Key::Untyped(size, false) => format!("(type unknown, {size} bytes)").into(),
        }
    }

    /// Gives a slot a type, unless it has one of a better grade, or the collector contradicts it.
    fn put(&mut self, slot: Slot, key: Key, grade: Grade) {
        let Some(number) = self.slots.number(slot) else { return };
        let Some(known) = self.out.slots.get(number).copied() else { return };
        if known != 0 && self.grades.get(number).is_none_or(|old| *old <= grade) {
            return;
        }
        let mut key = key;
        if grade != Grade::Exact && !self.fits(slot, key) {
            // A pointer to the first element of an array may look like one to a single value.
            let array = match key {
                Key::One(of) => Key::Array(of),
                other => other,
            };
            if array == key || grade == Grade::Shape || !self.fits(slot, array) {
                self.out.vetoed += 1;
                return;
            }
            key = array;
        }
        let kind = self.kind(key);
        if let (Some(to), Some(old)) = (self.out.slots.get_mut(number), self.grades.get_mut(number)) {
            (*to, *old) = (kind, grade);
        }
        if matches!(key, Key::One(_) | Key::Array(_)) {
            self.todo.push((slot, key));
        }
    }

    /// Whether the type has its pointers in the words that the collector takes for pointers.
    fn fits(&mut self, slot: Slot, key: Key) -> bool {
        let (of, array) = match key {
            Key::One(of) => (of, false),
            Key::Array(of) => (of, true),
            Key::Text => return self.slots.span(slot).is_some_and(|span| span.is_noscan()),
            Key::Chan(_) | Key::Closure(_) | Key::MapPart | Key::Untyped(..) => return true,
        };
        let (Some(span), Some(found)) = (self.slots.span(slot).copied(), self.types.get(of)) else { return false };
        if found.size > span.range.len() || found.size == 0 {
            return false;
        }
        if span.is_large() {
            return true;
        }
        if span.is_noscan() {
            return found.ptrdata == 0;
        }
        let Some(have) = self.masks.of_object(&span, slot.index) else { return true };
        if found.ptrdata == 0 {
            return have == 0;
        }
        let words = found.size / 8;
        let (Some(want), false) = (self.masks.of_type(self.types, of), found.kind == TypeKind::Map) else {
            return true;
        };
        if !array || words == 0 {
            return have == want;
        }
        // The mask of one element must repeat from the start. The words after the last used element have no pointers.
        let (mut rest, mut elements) = (have, 0);
        while rest != 0 {
            let first = if words >= 64 { rest } else { rest & ((1 << words) - 1) };
            if first != want {
                return false;
            }
            rest = if words >= 64 { 0 } else { rest >> words };
            elements += 1;
        }
        elements > 0
    }

    /// Types the object that a typed word points at, if the object begins at `addr`.
    fn point(&mut self, addr: Addr, key: Key, grade: Grade) {
        let Some(slot) = self.slots.live_at(addr) else { return };
        let Some(span) = self.slots.span(slot) else { return };
        let header = self.slots.header(span);
        let tiny = span.is_noscan() && span.elem == TINY && addr.is_aligned(8);
        if let (true, Key::One(of)) = (tiny && addr != slot.base, key) {
            let fits = self.types.get(of).is_some_and(|t| t.ptrdata == 0 && t.size > 0 && t.size <= TINY / 2);
            if fits && !self.out.tiny.contains_key(&addr) {
                let kind = self.kind(key);
                self.out.tiny.insert(addr, kind);
                self.tiny_grades.insert(addr, grade);
            }
            return;
        }
        if addr == slot.base || header > 0 && addr.checked_since(slot.base) == Some(header) {
            self.put(slot, key, grade);
        }
    }

    /// Types objects whose type the runtime stores before them, or in their span.
    fn headers(&mut self) {
        let slots = self.slots;
        for (i, span) in slots.spans.iter().enumerate().filter(|(_, span)| !span.is_noscan()) {
            if span.is_large() && self.types.get(span.large_type).is_some() {
                slots.each_live(i, |slot| {
                    self.put(slot, self_key(self.types, span.large_type, span.elem), Grade::Exact)
                });
            } else if slots.header(span) > 0 {
                slots.each_live(i, |slot| {
                    let of = self.memory.peek_u64(slot.base).map(Addr::new).unwrap_or_default();
                    if self.types.get(of).is_some() {
                        self.put(slot, self_key(self.types, of, span.elem - slots.header(span)), Grade::Exact);
                    }
                });
            }
        }
    }

    /// Types arguments of finalizers.
    fn finalizers(&mut self) {
        let slots = self.slots;
        let shape = self.runtime.shape().special;
        let walks = Walks::new(Phase::Objects, limits::MAX_GO_SPECIALS);
        for span in &slots.spans {
            let _ = walks.begin_own_set().follow(span.specials, |at| {
                let r = Record::read(self.memory, at, shape.size).ok_or("is not in the core")?;
                let kind = r.u8(shape.kind);
                let offset = if shape.offset_bytes == 2 { u64::from(r.u16(shape.offset)) } else { r.u64(shape.offset) };
                let pointer = self.types.get(r.ptr(shape.ot)).filter(|t| t.kind == TypeKind::Pointer);
                let slot = span.range.start.checked_add(offset).and_then(|at| slots.live_at(at));
                if let (true, Some(pointer), Some(slot)) = (kind == shape.finalizer, pointer, slot) {
                    self.put(slot, Key::One(pointer.elem), Grade::Exact);
                }
                Ok::<_, &str>(r.ptr(shape.next))
            });
        }
    }

    /// Types channels for which goroutines wait.
    fn channels(&mut self, list: &List) {
        let shape = self.runtime.shape().sudog;
        for g in &list.all {
            let walks = Walks::new(Phase::Objects, limits::MAX_GO_CASES);
            let _ = walks.begin_own_set().follow(g.waiting, |at| {
                let r = Record::read(self.memory, at, shape.size).ok_or("is not in the core")?;
                self.channel(r.ptr(shape.c));
                Ok::<_, &str>(r.ptr(shape.waitlink))
            });
        }
    }

    fn channel(&mut self, at: Addr) {
        let Some(slot) = self.slots.live_at(at).filter(|slot| slot.base == at) else { return };
        let Some(channel) = Channel::read(self.runtime, self.types, at) else { return };
        if self.types.get(channel.elem).is_none() {
            return;
        }
        self.put(slot, Key::Chan(channel.elem), Grade::Exact);
        if channel.cap > 0 && channel.buf != at {
            self.point(channel.buf, Key::Array(channel.elem), Grade::Held);
        }
    }

    /// Follows the fields of all objects that were typed.
    fn follow(&mut self) {
        while let Some((slot, key)) = self.todo.pop() {
            let (of, array) = match key {
                Key::One(of) => (of, false),
                Key::Array(of) => (of, true),
                Key::Chan(_) | Key::Closure(_) | Key::Text | Key::MapPart | Key::Untyped(..) => continue,
            };
            let (Some(found), Some(span)) = (self.types.get(of), self.slots.span(slot).copied()) else { continue };
            if found.ptrdata == 0 || found.size == 0 {
                continue;
            }
            let header = self.slots.header(&span);
            let size = if span.is_large() { span.range.len() } else { span.elem };
            let Some(bytes) = Record::look(self.memory, slot.base, size) else { continue };
            let fields = self.fields.of(self.types, of);
            // The target of a guessed object is a guess too.
            let known = self.slots.number(slot).and_then(|number| self.grades.get(number));
            let grade = if known == Some(&Grade::Shape) { Grade::Shape } else { Grade::Held };
            let count = if array { size.saturating_sub(header) / found.size } else { 1 };
            let is_bucket = found.name.starts_with("map.bucket[");
            for i in 0..count {
                let start = header + i * found.size;
                for (offset, leads) in fields.iter() {
                    self.lead(&bytes, start + offset, *leads, grade);
                }
                // The last word points at the next bucket of the chain.
                if let Some(last) = found.size.checked_sub(8).filter(|_| is_bucket) {
                    self.point(bytes.ptr(start + last), Key::One(of), grade);
                }
            }
        }
    }

    fn lead(&mut self, bytes: &Record<'_>, at: u64, leads: Leads, grade: Grade) {
        let to = bytes.ptr(at);
        if to.is_null() {
            return;
        }
        match leads {
            Leads::One(of) => self.point(to, Key::One(of), grade),
            Leads::Array(of) => self.point(to, Key::Array(of), grade),
            Leads::Text => self.point(to, Key::Text, grade),
            Leads::Chan => self.channel(to),
            Leads::Map(of) => self.map(to, of, grade),
            Leads::Interface => self.interface(to, bytes.ptr(at + 8), grade),
        }
    }

    fn interface(&mut self, word: Addr, value: Addr, grade: Grade) {
        if self.slots.at(value).is_none() {
            return;
        }
        let Some(of) = self.interfaces.type_of(self.memory, self.types, word) else { return };
        let Some(found) = self.types.get(of) else { return };
        match (found.direct, found.kind) {
            (true, TypeKind::Pointer) => self.point(value, Key::One(found.elem), grade),
            (true, TypeKind::Map) => self.map(value, of, grade),
            (true, TypeKind::Chan) => self.channel(value),
            (true, _) => {}
            (false, _) => self.point(value, Key::One(of), grade),
        }
    }

    fn map(&mut self, at: Addr, of: Addr, grade: Grade) {
        let Some(slot) = self.slots.live_at(at).filter(|slot| slot.base == at) else { return };
        let Some(found) = self.types.get(of) else { return };
        self.put(slot, Key::One(of), grade);
        if self.types.get(found.bucket).is_none() {
            return;
        }
        let shape = self.runtime.shape();
        match shape.map {
            Some(map) => {
                let (Ok(directory), Ok(count)) =
                    (self.memory.ptr(at.saturating_add(map.directory)), self.memory.u64(at.saturating_add(map.length)))
                else {
                    return;
                };
                if count == 0 {
                    return self.point(directory, Key::Array(found.bucket), grade);
                }
                let tables = (count <= MAX_TABLES).then(|| Record::look(self.memory, directory, 8 * count)).flatten();
                self.point(directory, Key::MapPart, grade);
                let mut last = Addr::NULL;
                for i in 0..tables.as_ref().map_or(0, |_| count) {
                    // Several entries in a row may lead to one table.
                    let table = tables.as_ref().map_or(Addr::NULL, |tables| tables.ptr(8 * i));
                    if table != last && !table.is_null() {
                        last = table;
                        self.point(table, Key::MapPart, grade);
                        let groups = self.memory.ptr(table.saturating_add(map.groups)).unwrap_or_default();
                        self.point(groups, Key::Array(found.bucket), grade);
                    }
                }
            }
            None => {
                let Some(r) = Record::look(self.memory, at, shape.hmap_end) else { return };
                if r.u8(B) < 64 {
                    for offset in shape.hmap_buckets {
                        self.point(r.ptr(offset), Key::Array(found.bucket), grade);
                    }
                }
            }
        }
    }

    /// Types objects that interfaces in untyped memory point at.
    fn scan(&mut self, range: AddrRange) {
        for part in self.memory.readable_parts(range, limits::MAX_STACK_SCAN) {
            let Some(words) = Record::look(self.memory, part.start, part.len()) else { continue };
            self.scan_words(&words, part.len());
        }
    }

    fn scan_words(&mut self, words: &Record<'_>, len: u64) {
        for at in (0..len.saturating_sub(15)).step_by(8) {
            let (word, value) = (words.ptr(at), words.ptr(at + 8));
            if !word.is_null() && !value.is_null() {
                self.interface(word, value, Grade::Shape);
            }
        }
    }

    /// Types closures, and follows interfaces in objects without a type. Returns the number of objects that got a type.
    fn untyped(&mut self) -> u64 {
        let slots = self.slots;
        let mut typed = 0;
        for (i, span) in slots.spans.iter().enumerate().filter(|(_, span)| !span.is_noscan()) {
            let mut rest = Vec::new();
            slots.each_live(i, |slot| {
                let number = slots.number(slot).and_then(|number| self.out.slots.get(number));
                rest.extend((number == Some(&0)).then_some(slot));
            });
            for slot in rest {
                let Some(words) = Record::look(self.memory, slot.base, span.elem) else { continue };
                let first = words.ptr(0);
                let func = self.code.functions().filter(|_| self.runtime.is_code(first));
                if func.and_then(|functions| functions.at(first)).is_some_and(|func| func.range.start == first) {
                    self.put(slot, Key::Closure(first), Grade::Exact);
                    typed += 1;
                }
                self.scan_words(&words, span.elem);
            }
            typed += self.todo.len() as u64;
            self.follow();
        }
        typed
    }

    /// Types objects whose size and pointers match exactly one type that the code allocates.
    fn shapes(&mut self) {
        let slots = self.slots;
        let shapes = sites::by_shape(self.runtime, self.types, self.code, &mut self.masks);
        for (i, span) in slots.spans.iter().enumerate().filter(|(_, span)| !span.is_noscan()) {
            let mut rest = Vec::new();
            slots.each_live(i, |slot| {
                let number = slots.number(slot).and_then(|number| self.out.slots.get(number));
                rest.extend((number == Some(&0)).then_some(slot));
            });
            for slot in rest {
                let mask = self.masks.of_object(span, slot.index);
                if let Some(of) = mask.and_then(|mask| shapes.get(&(span.elem, mask))) {
                    self.put(slot, Key::One(*of), Grade::Shape);
                }
            }
        }
        self.follow();
    }

    /// Counts objects by grade. Gives objects without a type a kind of their size.
    fn rest(&mut self) {
        let slots = self.slots;
        for (i, span) in slots.spans.iter().enumerate() {
            let untyped = Key::Untyped(span.elem, span.is_noscan());
            let mut all = Vec::new();
            slots.each_live(i, |slot| all.push(slot));
            for number in all.into_iter().filter_map(|slot| slots.number(slot)) {
                let kind = self.out.slots.get(number).copied().unwrap_or(0);
                if kind == 0 {
                    let kind = self.kind(untyped);
                    if let Some(slot) = self.out.slots.get_mut(number) {
                        *slot = kind;
                    }
                    continue;
                }
                let grade = self.grades.get(number).copied().unwrap_or(Grade::Shape);
                self.count(kind, grade);
            }
        }
        for (at, grade) in std::mem::take(&mut self.tiny_grades) {
            if let Some(kind) = self.out.tiny.get(&at).copied() {
                self.count(kind, grade);
            }
        }
    }

    fn count(&mut self, kind: u32, grade: Grade) {
        if let Some(counts) = self.out.grades.get_mut(kind as usize) {
            counts[grade as usize] += 1;
        }
    }
}

/// A value of a type, or an array of them if the object has room for several.
fn self_key(types: &Types<'_>, of: Addr, room: u64) -> Key {
    let several = types.get(of).is_some_and(|t| t.size > 0 && room / t.size > 1);
    if several { Key::Array(of) } else { Key::One(of) }
}
