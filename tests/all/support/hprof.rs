//! A strict reader of .hprof, written after the format's description (openjdk/jdk,
//! src/hotspot/share/services/heapDumper.cpp). Any deviation fails.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Class {
    pub name: String,
    pub above: u64,
    pub loader: u64,
    pub size: u32,
    pub statics: BTreeMap<String, u64>,
    /// Fields declared by the class: name and type.
    pub fields: Vec<(String, u8)>,
}

#[derive(Debug)]
pub enum Object {
    /// Fields by name, including those of base classes.
    Instance {
        class: u64,
        fields: BTreeMap<String, u64>,
    },
    Objects {
        class: u64,
        elements: Vec<u64>,
    },
    Values {
        kind: u8,
        bytes: Vec<u8>,
    },
}

#[derive(Debug, Default)]
pub struct Thread {
    /// 0 if it is not in the dump.
    pub object: u64,
    /// Innermost first: class, method, signature, line.
    pub frames: Vec<(String, String, String, i32)>,
}

#[derive(Debug, Default)]
pub struct HeapDump {
    pub classes: BTreeMap<u64, Class>,
    pub objects: BTreeMap<u64, Object>,
    /// Threads by serial number.
    pub threads: BTreeMap<u32, Thread>,
    /// Object, tag, serial number of the thread, index of the frame.
    pub roots: Vec<(u64, u8, u32, i32)>,
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, len: usize) -> &'b [u8] {
        self.at += len;
        &self.bytes[self.at - len..self.at]
    }

    fn number(&mut self, len: usize) -> u64 {
        self.take(len).iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn u8(&mut self) -> u8 {
        self.number(1) as u8
    }

    fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    fn id(&mut self) -> u64 {
        self.number(8)
    }

    fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }
}

fn width(kind: u8) -> usize {
    match kind {
        4 | 8 => 1,
        5 | 9 => 2,
        6 | 10 => 4,
        2 | 7 | 11 => 8,
        _ => panic!("no type {kind}"),
    }
}

/// Data collected before the end of the file.
#[derive(Default)]
struct Reading {
    names: BTreeMap<u64, String>,
    /// Id and name of classes, by serial number.
    loaded: BTreeMap<u32, (u64, String)>,
    frames: BTreeMap<u64, (String, String, String, i32)>,
    traces: BTreeMap<u32, (u32, Vec<u64>)>,
    objects_of_threads: BTreeMap<u32, u64>,
    /// Objects with their raw values.
    instances: Vec<(u64, u64, Vec<u8>)>,
    dump: HeapDump,
}

pub fn read(bytes: &[u8]) -> HeapDump {
    let mut file = Reader { bytes, at: 0 };
    assert_eq!(file.take(19), b"JAVA PROFILE 1.0.2\0");
    assert_eq!((file.u32(), file.number(8)), (8, 0));
    let mut reading = Reading::default();
    let mut ended = false;
    while !file.is_done() {
        assert!(!ended);
        let (tag, time, len) = (file.u8(), file.u32(), file.u32() as usize);
        assert_eq!(time, 0);
        let mut body = Reader { bytes: file.take(len), at: 0 };
        match tag {
            0x01 => {
                let id = body.id();
                let text = String::from_utf8(body.take(len - 8).to_vec()).unwrap();
                assert_eq!(reading.names.insert(id, text), None);
            }
            0x02 => {
                let (serial, id, _, name) = (body.u32(), body.id(), body.u32(), body.id());
                assert_eq!(reading.loaded.insert(serial, (id, reading.names[&name].clone())), None);
            }
            0x04 => {
                let id = body.id();
                let [method, signature, _file] = [body.id(), body.id(), body.id()];
                let (serial, line) = (body.u32(), body.u32() as i32);
                let name = |id: u64| if id == 0 { String::new() } else { reading.names[&id].clone() };
                let frame = (reading.loaded[&serial].1.clone(), name(method), name(signature), line);
                assert_eq!(reading.frames.insert(id, frame), None);
            }
            0x05 => {
                let (number, thread, count) = (body.u32(), body.u32(), body.u32());
                let ids = (0..count).map(|_| body.id()).collect();
                assert_eq!(reading.traces.insert(number, (thread, ids)), None);
            }
            0x1c => reading.segment(&mut body),
            0x2c => ended = true,
            _ => panic!("no tag {tag:#x}"),
        }
        assert!(body.is_done(), "tag {tag:#x}");
    }
    assert!(ended);
    reading.finish()
}

impl Reading {
    fn segment(&mut self, body: &mut Reader<'_>) {
        while !body.is_done() {
            let tag = body.u8();
            let id = body.id();
            let mut root = (id, tag, 0, -1);
            match tag {
                0xff | 0x05 => {}
                0x01 => drop(body.id()),
                0x02 | 0x03 => (root.2, root.3) = (body.u32(), body.u32() as i32),
                0x08 => {
                    let (serial, trace) = (body.u32(), body.u32());
                    assert_eq!(self.traces[&trace].0, serial);
                    assert!(self.objects_of_threads.insert(serial, id).is_none());
                    root.2 = serial;
                }
                0x20 => {
                    self.class(id, body);
                    continue;
                }
                0x21 => {
                    let (_, class, len) = (body.u32(), body.id(), body.u32());
                    self.instances.push((id, class, body.take(len as usize).to_vec()));
                    continue;
                }
                0x22 => {
                    let (_, count, class) = (body.u32(), body.u32(), body.id());
                    let elements = (0..count).map(|_| body.id()).collect();
                    assert!(self.dump.objects.insert(id, Object::Objects { class, elements }).is_none());
                    continue;
                }
                0x23 => {
                    let (_, count, kind) = (body.u32(), body.u32(), body.u8());
                    let bytes = body.take(count as usize * width(kind)).to_vec();
                    assert!(self.dump.objects.insert(id, Object::Values { kind, bytes }).is_none());
                    continue;
                }
                _ => panic!("no sub-record {tag:#x}"),
            }
            self.dump.roots.push(root);
        }
    }

    fn class(&mut self, id: u64, body: &mut Reader<'_>) {
        let name = self.loaded.values().find(|(of, _)| *of == id).unwrap().1.clone();
        let (_, above, loader) = (body.u32(), body.id(), body.id());
        let rest = [body.id(), body.id(), body.id(), body.id()];
        assert_eq!(rest, [0; 4]);
        let (size, constants) = (body.u32(), body.u16());
        assert_eq!(constants, 0);
        let mut class = Class { name, above, loader, size, ..Class::default() };
        for _ in 0..body.u16() {
            let (name, kind) = (self.names[&body.id()].clone(), body.u8());
            class.statics.insert(name, body.number(width(kind)));
        }
        for _ in 0..body.u16() {
            class.fields.push((self.names[&body.id()].clone(), body.u8()));
        }
        assert!(self.dump.classes.insert(id, class).is_none());
    }

    fn finish(mut self) -> HeapDump {
        for (id, class, bytes) in self.instances {
            let mut values = Reader { bytes: &bytes, at: 0 };
            let mut fields = BTreeMap::new();
            let mut of = class;
            while of != 0 {
                let here = &self.dump.classes[&of];
                for (name, kind) in &here.fields {
                    // If two fields have the same name, the derived class's counts.
                    let value = values.number(width(*kind));
                    fields.entry(name.clone()).or_insert(value);
                }
                of = here.above;
            }
            assert!(values.is_done(), "{}", self.dump.classes[&class].name);
            assert!(self.dump.objects.insert(id, Object::Instance { class, fields }).is_none());
        }
        for (serial, ids) in self.traces.into_values().filter(|(serial, _)| *serial != 0) {
            let frames = ids.iter().map(|id| self.frames[id].clone()).collect();
            let object = self.objects_of_threads.get(&serial).copied().unwrap_or(0);
            assert!(self.dump.threads.insert(serial, Thread { object, frames }).is_none());
        }
        self.dump
    }
}

impl HeapDump {
    /// The class with this name, as in class files.
    #[track_caller]
    pub fn class(&self, name: &str) -> u64 {
        let mut found = self.classes.iter().filter(|(_, class)| class.name == name);
        *found.next().unwrap_or_else(|| panic!("no {name}")).0
    }

    /// Instances of exactly this class, with their fields.
    pub fn instances(&self, class: u64) -> impl Iterator<Item = (u64, &BTreeMap<String, u64>)> {
        self.objects.iter().filter_map(move |(id, object)| match object {
            Object::Instance { class: of, fields } if *of == class => Some((*id, fields)),
            _ => None,
        })
    }

    /// Text of a `java.lang.String`. Its `value` is UTF-16, or Latin-1 if `coder` is 0.
    pub fn text(&self, id: u64) -> String {
        let Object::Instance { fields, .. } = &self.objects[&id] else { panic!("no text at {id:#x}") };
        let Object::Values { kind, bytes } = &self.objects[&fields["value"]] else { panic!("no value") };
        match (fields.get("coder"), kind) {
            (Some(0), 8) => bytes.iter().map(|byte| char::from(*byte)).collect(),
            (Some(1), 8) => {
                let units: Vec<u16> = bytes.chunks(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
                String::from_utf16(&units).unwrap()
            }
            (None, 5) => {
                let units: Vec<u16> = bytes.chunks(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]])).collect();
                String::from_utf16(&units).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Number of objects per class name. Arrays of primitive values count by the name of their type.
    pub fn counts(&self) -> BTreeMap<&str, u64> {
        let mut out: BTreeMap<&str, u64> = BTreeMap::new();
        for object in self.objects.values() {
            let name = match object {
                Object::Instance { class, .. } | Object::Objects { class, .. } => self.classes[class].name.as_str(),
                Object::Values { kind, .. } => ["[Z", "[C", "[F", "[D", "[B", "[S", "[I", "[J"][usize::from(*kind) - 4],
            };
            *out.entry(name).or_default() += 1;
        }
        out
    }
}
