//! One object.

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::facts::Name;
use crate::words::{FieldStorage, TaskStatus};

/// `object`: an object with its fields and their values. Unknown or unreadable values are `null`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ObjectReport {
    /// Start address.
    pub object: Addr,
    /// Type. `null` if there is no object.
    #[serde(rename = "type")]
    pub name: Option<Name>,
    /// Address of its MethodTable.
    pub method_table: Option<Addr>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Generation, as the runtime names it: gen2, loh.
    pub generation: Option<&'static str>,
    /// Index of its GC heap.
    pub heap: Option<u32>,
    /// File of the module that defines the type.
    pub module: Option<String>,
    /// Text of a string, or the value in a box.
    pub value: Option<String>,
    /// Number of elements of an array.
    pub length: Option<u64>,
    /// Dimensions of a multidimensional array.
    pub dimensions: Vec<DimensionRow>,
    /// First elements.
    pub elements: Vec<ElementRow>,
    /// Fields, by offset.
    pub fields: Vec<FieldRow>,
    /// Static fields declared by the type itself.
    pub statics: Vec<FieldRow>,
    /// Methods that a delegate calls. `null` for other objects.
    pub delegate: Option<DelegateDetail>,
    /// Details of an exception. `null` for other objects.
    pub exception: Option<ExceptionDetail>,
    /// TaskStatus of a task. `null` for other objects.
    pub task_status: Option<TaskStatus>,
    /// Contents of a collection. `null` for other objects, and for unknown collection types.
    pub collection: Option<CollectionDetail>,
}

/// A dimension of an array.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct DimensionRow {
    /// Number of indices.
    pub length: u32,
    /// First index.
    pub lower_bound: i32,
}

/// Methods that a delegate calls.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct DelegateDetail {
    /// Calls, in order.
    pub calls: Vec<CallRow>,
    /// Number of calls not listed.
    pub more: u64,
}

/// A method that a delegate calls.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CallRow {
    /// `this`, or the first argument that it is closed over.
    pub target: Option<Addr>,
    /// Type of that object.
    pub target_type: Option<Name>,
    /// The method. `null` if its code has no name.
    pub method: Option<String>,
    /// Address that the delegate calls.
    pub code: Option<Addr>,
}

/// Details of an exception.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExceptionDetail {
    /// Message, if it has its own.
    pub message: Option<String>,
    /// HRESULT.
    pub hresult: Option<String>,
    /// Inner exception.
    pub inner: Option<Addr>,
    /// Type of that exception.
    pub inner_type: Option<Name>,
    /// Stack trace, throwing frame first.
    pub frames: Vec<TraceRow>,
    /// Number of frames not listed.
    pub more: u64,
}

/// A frame of an exception's stack trace.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TraceRow {
    /// Code address: a return address, except in the throwing frame.
    pub ip: Addr,
    /// The method.
    pub method: Option<String>,
    /// Address of its MethodDesc.
    pub method_desc: Option<Addr>,
}

/// Contents of a collection.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CollectionDetail {
    /// Number of entries.
    pub count: u64,
    /// First entries.
    pub entries: Vec<EntryRow>,
}

/// An entry of a collection.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct EntryRow {
    /// Key, in a dictionary.
    pub key: Option<ElementRow>,
    /// Value.
    pub value: ElementRow,
}

/// A field.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FieldRow {
    /// Name.
    pub name: String,
    /// Offset: from the start of the object or struct; for statics, from their base.
    pub offset: u64,
    /// Declared type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Where the value is stored.
    pub storage: FieldStorage,
    /// Address of the value.
    pub address: Option<Addr>,
    /// Value as text: a number, `null`, the text of a string, the meaning of a well-known struct (whose fields are
    /// listed as well), or the value in a box.
    pub value: Option<String>,
    /// Object that it refers to.
    pub object: Option<Addr>,
    /// Type of that object.
    pub object_type: Option<Name>,
    /// Fields of a struct.
    pub fields: Vec<FieldRow>,
    /// For a thread static: its value in each thread that has one.
    pub threads: Vec<ThreadValueRow>,
}

/// Value of a thread static in one thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThreadValueRow {
    /// Thread id of the system.
    pub tid: Option<u32>,
    /// Managed thread id.
    pub managed_id: Option<u32>,
    /// Address of the value.
    pub address: Option<Addr>,
    /// Value as text.
    pub value: Option<String>,
    /// Object that it refers to.
    pub object: Option<Addr>,
    /// Type of that object.
    pub object_type: Option<Name>,
    /// Fields of a struct.
    pub fields: Vec<FieldRow>,
}

/// An element of an array.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ElementRow {
    /// Index, counted over all dimensions.
    pub index: u64,
    /// Index in each dimension of a multidimensional array.
    pub indices: Vec<i64>,
    /// Value as text.
    pub value: Option<String>,
    /// Object that it refers to.
    pub object: Option<Addr>,
    /// Type of that object.
    pub object_type: Option<Name>,
    /// Fields of a struct.
    pub fields: Vec<FieldRow>,
}
