//! Answers with the user's own Hermes, with its tools, memory and skills. One process serves many sessions. It knows
//! them by their id in `state.db`, and writes the rows of a turn itself.

mod backend;
mod find;
mod images;
mod sessions;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use find::python;

use super::process::Program;
use super::supervised::{Served, Supervised};
use super::{Agent, AgentError, Prompt, Sink};
use crate::agent::PROBE;
use crate::domain::TranscriptWriter;
use crate::domain::transcript::{HIDDEN, Role, Transcript};
use crate::domain::{Question, QuestionAnswer, QuestionPart, Reply, Usage};
use backend::{HermesEvent, HermesProcess, Listening};
use sessions::{Open, Slot};
use tools::Tools;

/// Hermes waits at least this long for an approval.
const PENDING: Duration = Duration::from_secs(55);
/// The time that an interrupted turn has to end.
const REST: Duration = Duration::from_secs(4);

pub struct Hermes {
    program: Program,
    backend: Supervised<HermesProcess>,
    /// How long an unused session stays open.
    idle: Duration,
}

impl Hermes {
    pub fn new(program: Program, idle: Duration) -> Hermes {
        Hermes {
            program,
            backend: Supervised::new("hermes", idle),
            idle,
        }
    }

    /// Opens the session and returns the backend's id of it. The session in the backend's memory is used if no other
    /// program has written since. Slots belong to conversations: when the backend splits a session, it continues in
    /// another row by itself.
    async fn open(
        &self,
        backend: &HermesProcess,
        slot: &mut Slot,
        prompt: &Prompt<'_>,
    ) -> Result<String, AgentError> {
        let id = &prompt.session.id;
        if let Some(open) = slot.open.take() {
            if open.said.is_some() && open.said == last_said(prompt.transcript) {
                let live = open.live.clone();
                slot.open = Some(open);
                return Ok(live);
            }
            backend.close_session(&open).await;
        }
        let opened = match id.as_str() {
            PROBE => backend.call("session.create", json!({})).await?,
            id => {
                let opened = backend
                    .call("session.resume", json!({"session_id": id}))
                    .await?;
                let resumed = opened["resumed"].as_str();
                if resumed.is_some_and(|resumed| resumed != id) {
                    tracing::debug!(
                        session = id,
                        resumed,
                        "Hermes continues in another part of this session"
                    );
                }
                opened
            }
        };
        let live = opened["session_id"]
            .as_str()
            .ok_or_else(|| AgentError::Failed("Hermes opened the session without an id".into()))?;
        slot.open = Some(Open {
            live: live.to_owned(),
            said: None,
            cwd: opened["info"]["cwd"].as_str().map(str::to_owned),
        });
        Ok(live.to_owned())
    }

    /// Lets the backend work in the directory of the session. Returns a note for the person if it cannot.
    async fn work_in(
        &self,
        backend: &HermesProcess,
        open: &mut Open,
        cwd: &str,
    ) -> Result<Option<String>, AgentError> {
        if open.cwd.as_deref() == Some(cwd) {
            return Ok(None);
        }
        let params = json!({"session_id": open.live, "cwd": cwd});
        match backend.call_if_known("session.cwd.set", params).await? {
            Some(Ok(_)) => {
                open.cwd = Some(cwd.to_owned());
                Ok(None)
            }
            Some(Err(why)) => Err(AgentError::Failed(format!(
                "Hermes cannot work in {cwd}: {why}"
            ))),
            None => Ok(Some(format!(
                "this version of Hermes works in a directory of its own, not in {cwd}: update Hermes"
            ))),
        }
    }
}

/// The last message of a transcript, if it is the agent's.
fn last_said(transcript: &Transcript) -> Option<String> {
    let last = transcript.messages.last()?;
    (last.role == Role::Assistant).then(|| last.plain().trim().to_owned())
}

#[async_trait]
impl Agent for Hermes {
    fn name(&self) -> &'static str {
        "hermes"
    }

    fn missing(&self) -> Option<String> {
        self.program.missing()
    }

    fn works_in_directory(&self) -> bool {
        true
    }

    fn transcript_writer(&self, _source: &str) -> TranscriptWriter {
        TranscriptWriter::Agent
    }

    fn needs_time_to_stop(&self) -> bool {
        true
    }

    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &dyn Sink,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let opened = async {
            let backend = self
                .backend
                .get(|| HermesProcess::start(&self.program))
                .await?;
            sink.alive();
            let mut slot = backend.sessions.reserve(sink.conversation()).await;
            let live = self.open(&backend, &mut slot, &prompt).await?;
            let mut note = None;
            if let (Some(open), Some(cwd)) = (&mut slot.open, &prompt.session.cwd) {
                note = self.work_in(&backend, open, cwd).await?;
            }
            // Until the turn succeeds, the backend's memory may differ from the transcript. For example, it may hold
            // the pictures of a turn that ended before its message was submitted.
            if let Some(open) = &mut slot.open {
                open.said = None;
            }
            let sure = images::attach(&backend, &live, &images::of(prompt.attachments)).await;
            Ok((backend, slot, live, sure, note))
        };
        let (backend, mut slot, live, sure, note) = tokio::select! {
            opened = opened => opened?,
            () = cancel.cancelled() => return Err(AgentError::Cancelled),
        };
        sink.alive();
        let mut events = backend.listen(&live);
        let mut submit = json!({"session_id": live, "text": prompt.message});
        if prompt.handoff {
            // The only kind that Hermes accepts here. Older versions ignore the field.
            submit["display_kind"] = HIDDEN.into();
        }
        let submitted = backend.call("prompt.submit", submit).await?;
        // A queued prompt waits for an earlier turn. The end of that turn is not the end of ours.
        let mut ours = submitted["status"] != "queued";
        let mut interrupt_on_drop = InterruptOnDrop {
            backend: backend.clone(),
            live: live.clone(),
            armed: true,
        };
        // The end of the time that an interrupted turn has.
        let mut deadline = None;
        let mut tools = Tools::default();
        let outcome = loop {
            let timed_out = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = events.next() => event,
                () = cancel.cancelled(), if deadline.is_none() => {
                    deadline = Some(tokio::time::Instant::now() + REST);
                    let interrupt = json!({"session_id": live});
                    let _ = backend.call("session.interrupt", interrupt).await;
                    continue;
                }
                () = timed_out => break Err(AgentError::Cancelled),
            };
            let Some(event) = event else {
                break Err(backend.why());
            };
            ours |= event.kind == "message.start";
            if !ours {
                continue;
            }
            if let Some(outcome) = receive(
                &backend,
                &live,
                sink,
                cancel,
                &event,
                &mut events,
                &mut tools,
            )
            .await?
            {
                break outcome;
            }
        };
        interrupt_on_drop.armed = false;
        let outcome = match outcome {
            _ if deadline.is_some() => Err(AgentError::Cancelled),
            outcome => outcome,
        };
        let outcome = outcome.map(|reply| Reply { note, ..reply });
        let said = match &outcome {
            Ok(reply) => sure.then(|| reply.text.trim().to_owned()),
            Err(_) => None,
        };
        if outcome.is_ok() {
            self.backend.worked().await;
        }
        let cwd = slot.open.take().and_then(|open| open.cwd);
        slot.open = Some(Open { live, said, cwd });
        slot.touch();
        drop(slot);
        backend.close_unused(self.idle);
        outcome
    }

    async fn close(&self) {
        self.backend.close().await;
    }
}

/// Interrupts the turn if its future is dropped before the end.
struct InterruptOnDrop {
    backend: Arc<HermesProcess>,
    live: String,
    armed: bool,
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if self.armed && self.backend.is_alive() {
            let (backend, live) = (self.backend.clone(), std::mem::take(&mut self.live));
            tokio::spawn(async move {
                let params = json!({"session_id": live});
                let _ = backend.call("session.interrupt", params).await;
            });
        }
    }
}

/// Handles one event of a turn. Returns the outcome if the event ends the turn.
async fn receive(
    backend: &HermesProcess,
    live: &str,
    sink: &dyn Sink,
    cancel: &CancellationToken,
    event: &HermesEvent,
    events: &mut Listening,
    tools: &mut Tools,
) -> Result<Option<Result<Reply, AgentError>>, AgentError> {
    let payload = &event.payload;
    let text = |name: &str| payload[name].as_str().unwrap_or_default();
    match event.kind.as_str() {
        "message.delta" => sink.push(text("text")),
        "message.complete" => return Ok(Some(complete(payload))),
        "error" => return Ok(Some(Err(AgentError::Failed(text("message").to_owned())))),
        "approval.request" => {
            let asked = Instant::now();
            let choice = tokio::select! {
                biased;
                // A cancelled turn gets no more answers.
                () = cancel.cancelled() => "deny",
                choice = approve(sink, payload) => choice,
                () = events.over() => return Ok(None),
            };
            let mut answer = json!({"session_id": live, "choice": choice});
            match payload.get("request_id") {
                Some(id) => answer["request_id"] = id.clone(),
                None if is_stale(asked.elapsed(), events.asks_again()) => {
                    tracing::warn!(
                        "approval denied: it came too late, and Hermes may apply it to a newer request"
                    );
                    answer["choice"] = "deny".into();
                }
                None => {}
            }
            backend.call("approval.respond", answer).await?;
        }
        "clarify.request" => {
            let answer = tokio::select! {
                biased;
                () = cancel.cancelled() => String::new(),
                answer = clarify(sink, payload) => answer,
                () = events.over() => return Ok(None),
            };
            let answer =
                json!({"session_id": live, "request_id": payload["request_id"], "answer": answer});
            backend.call("clarify.respond", answer).await?;
        }
        // No password belongs into a chat.
        kind @ ("sudo.request" | "secret.request") => {
            let (method, name) = match kind {
                "sudo.request" => ("sudo.respond", "password"),
                _ => ("secret.respond", "value"),
            };
            let answer = json!({"session_id": live, "request_id": payload["request_id"], name: ""});
            backend.call(method, answer).await?;
        }
        kind => match tools.receive(kind, payload) {
            Some(report) => sink.tool(report),
            None => sink.alive(),
        },
    }
    Ok(None)
}

fn complete(payload: &Value) -> Result<Reply, AgentError> {
    let text = payload["text"].as_str().unwrap_or_default();
    match payload["status"].as_str() {
        Some("error") => {
            let reason = text.strip_prefix("Error: ").unwrap_or(text);
            return Err(AgentError::Failed(reason.to_owned()));
        }
        Some("interrupted") => return Err(AgentError::Cancelled),
        _ => {}
    }
    let usage = &payload["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    Ok(Reply {
        text: text.to_owned(),
        reasoning: None,
        finish_reason: None,
        model: usage["model"].as_str().map(str::to_owned),
        usage: usage.is_object().then(|| Usage {
            input: count("input"),
            output: count("output"),
            cache_read: 0,
            reasoning: count("reasoning"),
        }),
        note: None,
    })
}

/// Hermes' names of the choices, and the labels that people see.
const APPROVALS: [(&str, &str); 4] = [
    ("once", "Yes, this once"),
    ("session", "Yes, for this session"),
    ("always", "Yes, always"),
    ("deny", "No"),
];

/// Hermes applies an answer without an id to the oldest approval that waits, and stops waiting after at least a minute.
/// So a late answer could approve another command that Hermes has asked for since.
fn is_stale(waited: Duration, asks_again: bool) -> bool {
    asks_again && waited > PENDING
}

/// Asks whether a command may run. No answer counts as a denial.
async fn approve(sink: &dyn Sink, payload: &Value) -> &'static str {
    let offered = payload["choices"].as_array();
    let is_offered = |name: &str| match offered {
        Some(offered) => offered.iter().any(|choice| choice == name),
        None => matches!(name, "once" | "deny"),
    };
    let choices: Vec<(&'static str, &str)> = APPROVALS
        .into_iter()
        .filter(|(name, _)| is_offered(name))
        .collect();
    let named = |key: &str| payload[key].as_str().filter(|text| !text.trim().is_empty());
    let command = named("command").unwrap_or("(Hermes does not say what)");
    let why = named("description").map(|why| QuestionPart::new("Why it asks", why));
    let subject = [QuestionPart::new("Command", command)]
        .into_iter()
        .chain(why);
    let question = Question {
        ask: "May I run this?".to_owned(),
        subject: subject.collect(),
        choices: choices
            .iter()
            .map(|(_, words)| (*words).to_owned())
            .collect(),
        open: false,
    };
    match sink.ask(question).await {
        QuestionAnswer::Choice(at) => choices.get(at).map_or("deny", |(name, _)| name),
        QuestionAnswer::Words(_) | QuestionAnswer::Nobody => "deny",
    }
}

async fn clarify(sink: &dyn Sink, payload: &Value) -> String {
    let choices: Vec<String> = payload["choices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|choice| choice.as_str().map(str::to_owned))
        .collect();
    let question = Question {
        ask: payload["question"].as_str().unwrap_or("?").to_owned(),
        subject: Vec::new(),
        choices: choices.clone(),
        open: true,
    };
    match sink.ask(question).await {
        QuestionAnswer::Choice(at) => choices.get(at).cloned().unwrap_or_default(),
        QuestionAnswer::Words(words) => words,
        QuestionAnswer::Nobody => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_not_taken_for_another_command() {
        let (early, late) = (Duration::from_secs(10), Duration::from_secs(90));
        assert!(is_stale(late, true));
        assert!(!is_stale(late, false), "no other approval waits");
        assert!(
            !is_stale(early, true),
            "both wait, and the answer is for the first"
        );
    }
}
