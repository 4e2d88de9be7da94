//! A client of the control socket that knows nothing but lines, so that it can say what no good client would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

use super::{Home, PATIENCE, SESSION, until};

pub struct Wire {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    next: u64,
}

impl Wire {
    /// Connected, and nothing said yet.
    pub fn connect(path: &Path) -> Wire {
        let stream = UnixStream::connect(path).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Wire {
            reader: BufReader::new(stream.try_clone().expect("a second handle")),
            stream,
            next: 1,
        }
    }

    /// Connected and greeted; tried again while there is no place.
    pub fn greeted(path: &Path) -> Wire {
        until("a place at the socket", || {
            let mut wire = Wire::connect(path);
            let _ = wire.try_send(format!("{}\n", hello(0)).as_bytes());
            wire.line()
                .filter(|answer| answer["result"]["server"] == "hermesd")
                .map(|_| wire)
        })
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn send(&mut self, text: &str) {
        self.try_send(text.as_bytes())
            .expect("a server that listens");
    }

    /// "I have said all I want to."
    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a half close");
    }

    /// Whatever the server still wants to say cannot be sent.
    pub fn hear_no_more(&self) {
        self.stream.shutdown(Shutdown::Read).expect("a half close");
    }

    /// The next line; `None` when the server has closed the connection.
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).expect("JSON")),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(e) => panic!("the server neither answers nor closes: {e}"),
        }
    }

    /// All that still comes, be it whole lines or not.
    pub fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Err(e) if e.kind() != std::io::ErrorKind::ConnectionReset => {
                panic!("the server neither answers nor closes: {e}")
            }
            _ => String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Sends a request and returns the whole answer; events that come first are passed over.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.send(&request(json!(id), method, params));
        loop {
            let line = self.line().expect("an answer");
            if line.get("method").is_none() {
                assert_eq!(line["id"], id, "{line}");
                return line;
            }
        }
    }

    /// The result of a call that is expected to go well.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The main job: the seeded session goes to the embedded platform.
    pub fn hand_off(&mut self) -> i64 {
        let wish = json!({"platform": "local", "session": SESSION});
        let id = self.ask("handoff.request", wish)["id"]
            .as_i64()
            .expect("an id");
        let ended = self.ask("handoff.wait", json!({"id": id}));
        assert_eq!(ended["state"], "completed", "{ended}");
        id
    }
}

pub fn hello(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "hello", "params": {"client": "test", "version": "0", "protocol": 1}})
}

pub fn request(id: Value, method: &str, params: Value) -> String {
    format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    )
}

/// A client that does all as it should, on a connection of its own.
pub fn somebody_hands_off(home: &Home) -> i64 {
    Wire::greeted(&home.socket()).hand_off()
}
