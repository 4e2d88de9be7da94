//! An agent that speaks the Agent Client Protocol by hand and is strict about it: a witness that shares no code with hermesd.
//! What it does is decided by words in the last text block of a prompt; what it got is recorded, line by line, in the
//! file that `ACP_AGENT_RECORD` names. `ACP_AGENT_MODE`: `plain` loads no sessions, `remembers` keeps them in the file
//! `ACP_AGENT_STATE`, `forgetful` pretends to, `mute` never says a word. `ACP_AGENT_TAKES`: `image`, `audio` or both.
//! `ACP_AGENT_CALL` names a file with the tool call that it asks permission for, and what it says of that call before.

#[path = "acp_agent/blocks.rs"]
mod blocks;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const NO_SUCH_SESSION: i64 = -32002;

type Answer = Result<Value, (i64, String)>;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Plain,
    Remembers,
    Forgetful,
    Mute,
}

#[derive(Default, Serialize, Deserialize)]
struct Session {
    /// Who said what.
    history: Vec<(String, String)>,
    #[serde(skip)]
    running: Option<Running>,
}

/// A prompt that has no answer yet.
struct Running {
    id: Value,
    stubborn: bool,
    cancelled: bool,
    /// Our request to the client that it waits for.
    permission: Option<u64>,
}

struct Agent {
    mode: Mode,
    greeted: bool,
    sessions: BTreeMap<String, Session>,
    state: Option<PathBuf>,
    requests: u64,
}

fn main() {
    let mode = match std::env::var("ACP_AGENT_MODE").as_deref() {
        Ok("remembers") => Mode::Remembers,
        Ok("forgetful") => Mode::Forgetful,
        Ok("mute") => Mode::Mute,
        _ => Mode::Plain,
    };
    let state = std::env::var_os("ACP_AGENT_STATE").map(PathBuf::from);
    let kept = state
        .as_ref()
        .filter(|_| mode == Mode::Remembers)
        .and_then(|path| std::fs::read(path).ok());
    let mut agent = Agent {
        mode,
        greeted: false,
        sessions: kept
            .map(|kept| serde_json::from_slice(&kept).expect("a state of our own"))
            .unwrap_or_default(),
        state,
        requests: 0,
    };
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        match serde_json::from_str::<Value>(&line) {
            Ok(message) => {
                record(&message);
                if agent.mode != Mode::Mute {
                    agent.take(&message);
                }
            }
            Err(error) => fail(&Value::Null, PARSE_ERROR, &error.to_string()),
        }
    }
    // The stubborn one stays when the client is gone: who wants it gone has to kill it. Not for ever, should nobody do so.
    let prompts = agent.sessions.values().filter_map(|s| s.running.as_ref());
    if prompts.into_iter().any(|running| running.stubborn) {
        std::thread::sleep(std::time::Duration::from_secs(120));
    }
}

impl Agent {
    fn take(&mut self, message: &Value) {
        let id = message.get("id");
        if message["jsonrpc"] != "2.0" {
            return fail(
                id.unwrap_or(&Value::Null),
                INVALID_REQUEST,
                "this is no JSON-RPC 2.0",
            );
        }
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => match self.request(method, id, &message["params"]) {
                Ok(Some(result)) => answer(id, result),
                Ok(None) => {}
                Err((code, why)) => fail(id, code, &why),
            },
            (Some("session/cancel"), None) => self.cancel(&message["params"]),
            (Some(_), None) => {}
            (None, Some(id)) => self.permitted(id, &message["result"]["outcome"]),
            (None, None) => fail(
                &Value::Null,
                INVALID_REQUEST,
                "neither a request nor an answer",
            ),
        }
    }

    /// `None`: the answer comes later.
    fn request(
        &mut self,
        method: &str,
        id: &Value,
        params: &Value,
    ) -> Result<Option<Value>, (i64, String)> {
        if !self.greeted && method != "initialize" {
            return Err((INVALID_REQUEST, "say initialize first".into()));
        }
        match method {
            "initialize" => self.greet(params).map(Some),
            "session/new" => self.create(params).map(Some),
            "session/load" if self.mode != Mode::Plain => self.load(params).map(Some),
            "session/prompt" => self.prompt(id, params).map(|()| None),
            _ => Err((METHOD_NOT_FOUND, format!("there is no {method}"))),
        }
    }

    fn greet(&mut self, params: &Value) -> Answer {
        if params["protocolVersion"] != 1 {
            return Err(invalid("protocolVersion 1 is wanted"));
        }
        if self.greeted {
            return Err((INVALID_REQUEST, "initialize was said before".into()));
        }
        self.greeted = true;
        Ok(json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": self.mode != Mode::Plain,
                "promptCapabilities": blocks::capabilities(),
            },
            "agentInfo": {"name": "acp-agent", "version": "1"},
            "authMethods": [],
        }))
    }

    fn create(&mut self, params: &Value) -> Answer {
        place(params)?;
        let id = format!("own-{}-{}", std::process::id(), self.sessions.len() + 1);
        self.sessions.insert(id.clone(), Session::default());
        self.keep();
        Ok(json!({"sessionId": id}))
    }

    fn load(&mut self, params: &Value) -> Answer {
        place(params)?;
        let id = session_id(params)?;
        match self.sessions.get(id) {
            Some(session) => {
                for (who, text) in &session.history {
                    tell(id, &format!("{who}_message_chunk"), text);
                }
                let modes = [json!({"id": "default", "name": "Default"})];
                Ok(json!({"modes": {"currentModeId": "default", "availableModes": modes}}))
            }
            None if self.mode == Mode::Forgetful => Ok(json!({})),
            None => Err(unknown(id)),
        }
    }

    fn prompt(&mut self, request: &Value, params: &Value) -> Result<(), (i64, String)> {
        let id = session_id(params)?;
        let blocks = params["prompt"]
            .as_array()
            .filter(|blocks| !blocks.is_empty())
            .ok_or_else(|| invalid("prompt is a list of blocks"))?;
        for block in blocks {
            blocks::check(block).map_err(|why| invalid(&why))?;
        }
        let session = self.sessions.get_mut(id).ok_or_else(|| unknown(id))?;
        if session.running.is_some() {
            return Err((
                INVALID_REQUEST,
                "a prompt is running in this session".into(),
            ));
        }
        let asked = blocks.iter().rev().find_map(|block| block["text"].as_str());
        let asked = asked.unwrap_or_default();
        session.history.push(("user".into(), asked.into()));
        session.running = Some(Running {
            id: request.clone(),
            stubborn: false,
            cancelled: false,
            permission: None,
        });
        self.work(id, asked, blocks.len());
        self.keep();
        Ok(())
    }

    /// Does what the words ask for.
    fn work(&mut self, id: &str, asked: &str, blocks: usize) {
        let wants = |wish: &str| {
            asked
                .split(|c: char| !c.is_alphanumeric())
                .any(|w| w == wish)
        };
        if wants("crash") {
            let _ = writeln!(std::io::stderr(), "boom");
            std::process::exit(3);
        }
        if wants("slowly") || wants("stubborn") {
            self.running(id).stubborn = wants("stubborn");
            return self.say(id, "Half of");
        }
        if wants("permission") {
            self.requests += 1;
            self.running(id).permission = Some(self.requests);
            return ask_permission(id, self.requests);
        }
        if wants("empty") {
            return self.stop(id, "end_turn");
        }
        if wants("refuse") {
            return self.stop(id, "refusal");
        }
        if wants("think") {
            tell(id, "agent_thought_chunk", "A thought. ");
            let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "A tool", "status": "pending"});
            update(id, call);
        }
        let prompts = self.sessions[id].history.iter();
        let prompts = prompts.filter(|(who, _)| who == "user").count();
        self.say(id, &format!("Blocks: {blocks}. "));
        if wants("think") {
            let content =
                json!([{"type": "content", "content": {"type": "text", "text": "A result."}}]);
            update(
                id,
                json!({"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed", "content": content}),
            );
            let entries =
                json!([{"content": "A step.", "priority": "medium", "status": "pending"}]);
            update(id, json!({"sessionUpdate": "plan", "entries": entries}));
        }
        self.say(id, &format!("Prompts: {prompts}."));
        self.stop(id, "end_turn");
        if wants("late") {
            tell(id, "agent_message_chunk", " Too late.");
        }
    }

    fn cancel(&mut self, params: &Value) {
        let Some(id) = params["sessionId"].as_str() else {
            return;
        };
        let running = self.sessions.get_mut(id).and_then(|s| s.running.as_mut());
        let Some(running) = running.filter(|running| !running.stubborn) else {
            return;
        };
        running.cancelled = true;
        // The client owes the answer to what it was asked, and only then it is over.
        if running.permission.is_none() {
            self.stop(id, "cancelled");
        }
    }

    fn permitted(&mut self, request: &Value, outcome: &Value) {
        let asked = request.as_u64();
        let found = self.sessions.iter_mut().find(|(_, session)| {
            let running = session.running.as_ref();
            asked.is_some() && running.is_some_and(|running| running.permission == asked)
        });
        let Some((id, session)) = found else { return };
        let id = id.clone();
        if session.running.as_ref().is_some_and(|r| r.cancelled) {
            return self.stop(&id, "cancelled");
        }
        let chosen = match outcome["outcome"].as_str() {
            Some("selected") => outcome["optionId"].as_str().unwrap_or("nonsense"),
            Some("cancelled") => "cancelled",
            _ => "nonsense",
        };
        self.say(&id, &format!("You chose {chosen}"));
        self.stop(&id, "end_turn");
        self.keep();
    }

    fn say(&mut self, id: &str, text: &str) {
        tell(id, "agent_message_chunk", text);
        if let Some(session) = self.sessions.get_mut(id) {
            session.history.push(("agent".into(), text.into()));
        }
    }

    fn stop(&mut self, id: &str, reason: &str) {
        let session = self.sessions.get_mut(id);
        if let Some(running) = session.and_then(|session| session.running.take()) {
            answer(&running.id, json!({"stopReason": reason}));
        }
    }

    fn running(&mut self, id: &str) -> &mut Running {
        let session = self.sessions.get_mut(id).expect("a session");
        session.running.as_mut().expect("a prompt")
    }

    fn keep(&self) {
        if let Some(path) = self.state.as_ref().filter(|_| self.mode == Mode::Remembers) {
            let state = serde_json::to_vec(&self.sessions).expect("JSON");
            std::fs::write(path, state).expect("a state that is kept");
        }
    }
}

fn ask_permission(session: &str, request: u64) {
    let options = ["allow_once", "allow_always", "reject_once"];
    let names = ["Yes", "Always", "No"];
    let options: Vec<Value> = options
        .iter()
        .zip(names)
        .map(|(kind, name)| json!({"optionId": format!("the-{kind}"), "kind": kind, "name": name}))
        .collect();
    let file = std::env::var_os("ACP_AGENT_CALL").and_then(|path| std::fs::read(path).ok());
    let told: Option<Value> = file.map(|told| serde_json::from_slice(&told).expect("JSON"));
    let mut told = told.unwrap_or_default();
    if let Some(mut before) = told.get_mut("before").map(Value::take) {
        before["sessionUpdate"] = json!("tool_call");
        update(session, before);
    }
    let call = match told.get_mut("call") {
        Some(call) => call.take(),
        None => json!({"toolCallId": "t1", "title": "rm -rf /tmp/nothing"}),
    };
    let params = json!({"sessionId": session, "toolCall": call, "options": options});
    send(
        json!({"jsonrpc": "2.0", "id": request, "method": "session/request_permission", "params": params}),
    );
}

/// Where a session works: what every request for one has to say.
fn place(params: &Value) -> Result<(), (i64, String)> {
    let is_absolute = params["cwd"].as_str().is_some_and(|d| d.starts_with('/'));
    if !is_absolute || !params["mcpServers"].is_array() {
        return Err(invalid("an absolute cwd and a list of mcpServers"));
    }
    Ok(())
}

fn session_id(params: &Value) -> Result<&str, (i64, String)> {
    params["sessionId"]
        .as_str()
        .ok_or_else(|| invalid("sessionId is a text"))
}

fn unknown(session: &str) -> (i64, String) {
    (NO_SUCH_SESSION, format!("there is no session {session}"))
}

fn invalid(wanted: &str) -> (i64, String) {
    (INVALID_PARAMS, format!("wrong params: {wanted}"))
}

fn tell(session: &str, kind: &str, text: &str) {
    let content = json!({"type": "text", "text": text});
    update(session, json!({"sessionUpdate": kind, "content": content}));
}

fn update(session: &str, update: Value) {
    let params = json!({"sessionId": session, "update": update});
    send(json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
}

fn answer(id: &Value, result: Value) {
    send(json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn fail(id: &Value, code: i64, why: &str) {
    send(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why}}));
}

fn send(message: Value) {
    let mut stdout = std::io::stdout().lock();
    // A client that is gone is nothing to complain about: the next read finds that out.
    let _ = writeln!(stdout, "{message}").and_then(|()| stdout.flush());
}

fn record(message: &Value) {
    let Some(path) = std::env::var_os("ACP_AGENT_RECORD") else {
        return;
    };
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    let line = format!("{}\n", json!({"pid": std::process::id(), "got": message}));
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("a record");
}
