//! One object.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::facts::Name;
use crate::words::{FieldStorage, TaskStatus};

/// `object`: one object, its fields and their values. What can't be read, or is
/// not known, is `null`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ObjectReport {
    /// Where it begins.
    pub object: Addr,
    /// Its type; `null` where there is no object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Its MethodTable.
    pub method_table: Option<Addr>,
    /// Its size.
    pub size: Option<u64>,
    /// Generation that it is in, in the runtime's own words: gen2, loh.
    pub generation: Option<&'static str>,
    /// Number of its GC heap.
    pub heap: Option<u32>,
    /// File of the module that defines the type.
    pub module: Option<String>,
    /// Text of a string, value in a box.
    pub value: Option<String>,
    /// Elements of an array.
    pub length: Option<u64>,
    /// Its dimensions, where it has more than a length.
    pub dimensions: Vec<DimensionRow>,
    /// The first of them.
    pub elements: Vec<ElementRow>,
    /// Fields, by offset.
    pub fields: Vec<FieldRow>,
    /// Static fields that the type itself declares.
    pub statics: Vec<FieldRow>,
    /// What a delegate calls; `null` for other objects.
    pub delegate: Option<DelegateDetail>,
    /// What an exception says; `null` for other objects.
    pub exception: Option<ExceptionDetail>,
    /// A task's TaskStatus; `null` for other objects.
    pub task_status: Option<TaskStatus>,
    /// What a collection holds; `null` for other objects, and those of kinds not known.
    pub collection: Option<CollectionDetail>,
}

/// A dimension of an array.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct DimensionRow {
    /// How many indices it has.
    pub length: u32,
    /// The first of them.
    pub lower_bound: i32,
}

/// What a delegate calls.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DelegateDetail {
    /// In the order of the calls.
    pub calls: Vec<CallRow>,
    /// How many more there are.
    pub more: u64,
}

/// A method that a delegate calls.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CallRow {
    /// Its `this`, or the first argument that it is closed over.
    pub target: Option<Addr>,
    /// That object's type.
    pub target_type: Option<Name>,
    /// The method; `null` where its code could not be named.
    pub method: Option<String>,
    /// Where the delegate jumps.
    pub code: Option<Addr>,
}

/// What an exception says.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExceptionDetail {
    /// Its message, where it has one of its own.
    pub message: Option<String>,
    /// Its HRESULT.
    pub hresult: Option<String>,
    /// The exception within it.
    pub inner: Option<Addr>,
    /// That exception's type.
    pub inner_type: Option<Name>,
    /// Its stack trace, where it was thrown first.
    pub frames: Vec<TraceRow>,
    /// How many more there are.
    pub more: u64,
}

/// A frame of an exception's stack trace.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TraceRow {
    /// Where in the code; a return address but for the frame that threw.
    pub ip: Addr,
    /// The method.
    pub method: Option<String>,
    /// Its MethodDesc.
    pub method_desc: Option<Addr>,
}

/// What a collection holds.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CollectionDetail {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub entries: Vec<EntryRow>,
}

/// An entry of a collection.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct EntryRow {
    /// Its key, in a dictionary.
    pub key: Option<ElementRow>,
    /// Itself.
    pub value: ElementRow,
}

/// A field.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FieldRow {
    /// Its name.
    pub name: String,
    /// Its offset: in an object from its start, in a struct from the struct's,
    /// for statics from their base.
    pub offset: u64,
    /// Its type, as declared.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Where its value is kept.
    pub storage: FieldStorage,
    /// Where its value is.
    pub address: Option<Addr>,
    /// Its value as text: numbers, `null`, text of strings, what well-known structs
    /// stand for (their fields are there as well), the value in a box.
    pub value: Option<String>,
    /// The object that it leads to.
    pub object: Option<Addr>,
    /// That object's type.
    pub object_type: Option<Name>,
    /// Fields of a struct.
    pub fields: Vec<FieldRow>,
    /// Of a thread static: its value in each thread that has one.
    pub threads: Vec<ThreadValueRow>,
}

/// A thread's value of a thread static.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThreadValueRow {
    /// The system's number of the thread.
    pub tid: Option<u32>,
    /// The number that managed code knows it by.
    pub managed_id: Option<u32>,
    /// Where the value is.
    pub address: Option<Addr>,
    /// Its value as text.
    pub value: Option<String>,
    /// The object that it leads to.
    pub object: Option<Addr>,
    /// That object's type.
    pub object_type: Option<Name>,
    /// Fields of a struct.
    pub fields: Vec<FieldRow>,
}

/// An element of an array.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ElementRow {
    /// Its index, counted over all dimensions.
    pub index: u64,
    /// Its index in each dimension, where the array has more than a length.
    pub indices: Vec<i64>,
    /// Its value as text.
    pub value: Option<String>,
    /// The object that it leads to.
    pub object: Option<Addr>,
    /// That object's type.
    pub object_type: Option<Name>,
    /// Fields of a struct.
    pub fields: Vec<FieldRow>,
}
