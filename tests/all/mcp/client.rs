//! A client of the protocol, as small as can be: JSON-RPC, one message a line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

/// A running server.
pub struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    last: u64,
    /// Notifications that came meanwhile.
    pub notifications: Vec<Value>,
}

impl Client {
    /// Starts a server for a folder, and begins a session.
    pub fn start(root: &Path, options: &[&str]) -> Client {
        let mut client = Client::raw(root, options);
        let info = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        let answer = client.request("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "coremap", "{answer}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// Starts a server.
    pub fn raw(root: &Path, options: &[&str]) -> Client {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coremap"));
        command.arg("mcp").arg("--root").arg(root).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Client { child, to, from, last: 0, notifications: Vec::new() }
    }

    pub fn send(&mut self, message: &Value) {
        self.line(&message.to_string());
    }

    pub fn line(&mut self, line: &str) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a request, and returns its number.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params }));
        self.last
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub fn wait(&mut self, id: u64) -> Value {
        loop {
            let message = self.read();
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    /// The same, or an error without a number, which answers a request that is none.
    #[track_caller]
    pub fn wait_or_error(&mut self, id: u64) -> Value {
        loop {
            let message = self.read();
            if message["id"] == id || message["id"].is_null() && message["error"].is_object() {
                return message;
            }
            self.notifications.push(message);
        }
    }

    #[track_caller]
    pub fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the server ended: {:?}", self.child.try_wait());
        serde_json::from_str(&line).unwrap()
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.wait(id)
    }

    /// Calls a tool, and returns its structured answer. The text of the answer is the same.
    #[track_caller]
    pub fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        let answer = self.request("tools/call", &json!({ "name": name, "arguments": arguments }));
        let result = &answer["result"];
        let structured = result["structuredContent"].clone();
        assert!(structured.is_object(), "{name} {arguments}: {answer}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, structured);
        assert_eq!(result["isError"].as_bool().unwrap_or(false), !structured["error"].is_null(), "{answer}");
        structured
    }

    /// Processes that the server started.
    pub fn workers(&self) -> Vec<u32> {
        let pid = self.child.id();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        children
            .flat_map(|pids| pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect()
    }

    /// Closes the session. The server must end by itself.
    pub fn end(mut self) -> ExitStatus {
        drop(self.to.take());
        self.child.wait().unwrap()
    }
}
