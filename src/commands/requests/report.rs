use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::report::Name;

/// `requests`: requests that are not answered.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RequestsReport {
    /// Servers and clients with requests in flight.
    pub servers: Vec<ServerRow>,
    /// The threads and tasks that serve them.
    pub requests: Vec<RequestRow>,
    /// Whether routes and peers are known but hidden without `--show-data`.
    pub withheld: bool,
    /// Runtimes of the process whose requests are not read. Theirs are missing from the lists.
    pub unread: Vec<String>,
}

/// Requests of one server or client.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ServerRow {
    /// Runtime of the server.
    pub runtime: Name,
    /// What serves them, or makes the calls.
    pub kind: String,
    /// Number of requests.
    pub count: u64,
    /// Number of them whose thread or task is known.
    pub found: u64,
    /// Their routes, most first. Empty without `--show-data`.
    pub routes: Vec<RouteRow>,
}

/// Requests of one route.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RouteRow {
    /// The path.
    pub route: String,
    /// Number of requests.
    pub count: u64,
}

/// A thread or task that serves a request.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RequestRow {
    /// What serves it, as in `servers`.
    pub kind: String,
    /// The thread. `null` for a task that no thread runs.
    pub tid: Option<u32>,
    /// The task. `null` for a thread.
    pub task: Option<Addr>,
    /// Innermost method of the program. `null` if none is known.
    pub method: Option<String>,
    /// Method of the program that called it. `null` if none is known.
    pub caller: Option<String>,
    /// What it waits for, in words. `null` if it runs, or if that is not known.
    pub waits_for: Option<String>,
    /// The object that it waits for. `null` if there is none.
    pub object: Option<Addr>,
}
