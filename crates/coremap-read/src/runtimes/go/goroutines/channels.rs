//! Channels, and who waits in their queues.
//!
//! Source: runtime/chan.go (`hchan`, `waitq`), runtime2.go (`sudog`).

use crate::addr::Addr;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;
use crate::runtimes::go::types::Types;

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtimes::go) struct Channel {
    pub(in crate::runtimes::go) at: Addr,
    /// Type of its elements.
    pub(in crate::runtimes::go) elem: Addr,
    /// Number of elements in the buffer, and its capacity.
    pub(in crate::runtimes::go) len: u64,
    pub(in crate::runtimes::go) cap: u64,
    pub(in crate::runtimes::go) buf: Addr,
    pub(in crate::runtimes::go) closed: bool,
    /// Whether somebody waits to receive, and to send.
    pub(in crate::runtimes::go) receivers: bool,
    pub(in crate::runtimes::go) senders: bool,
}

impl Channel {
    /// The channel at an address. `None` if its fields contradict each other.
    pub(in crate::runtimes::go) fn read(runtime: &Runtime<'_>, types: &Types<'_>, at: Addr) -> Option<Channel> {
        let c = &runtime.shape().chan;
        let r = Record::read(runtime.memory(), at, c.size)?;
        let (len, cap, elem) = (r.u64(c.qcount), r.u64(c.dataqsiz), r.ptr(c.elemtype));
        (len <= cap && types.may_be(elem)).then(|| Channel {
            at,
            elem,
            len,
            cap,
            buf: r.ptr(c.buf),
            closed: r.u32(c.closed) != 0,
            receivers: !r.ptr(c.recvq).is_null(),
            senders: !r.ptr(c.sendq).is_null(),
        })
    }

    /// Its type as Go writes it: `chan *main.Job`.
    pub(in crate::runtimes::go) fn type_name(&self, types: &Types<'_>) -> Option<String> {
        types.get(self.elem).map(|elem| format!("chan {}", elem.name))
    }
}
