//! The user's own Hermes, with its tools, memory and skills. One process serves many sessions; it knows them by their id
//! from `state.db`, and writes the rows of a turn itself.

mod backend;
mod find;
mod images;
mod sessions;

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
use backend::{Backend, Event, Listening};
use sessions::{Open, Slot};

/// An approval waits at least this long in Hermes.
const PENDING: Duration = Duration::from_secs(55);
/// How long an interrupted turn may take to come to rest.
const REST: Duration = Duration::from_secs(4);

pub struct Hermes {
    program: Program,
    backend: Supervised<Backend>,
    /// How long a session stays open that is not used.
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

    /// The session as the backend has it: from its memory where no other program has written since, else read anew.
    /// The backend goes on by itself in another row when it has split the session, so its memory is by conversation.
    async fn open(
        &self,
        backend: &Backend,
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
                        "Hermes goes on in another part of this session"
                    );
                }
                opened
            }
        };
        let live = opened["session_id"].as_str().ok_or_else(|| {
            AgentError::Failed("Hermes opened the session without a name for it".into())
        })?;
        slot.open = Some(Open {
            live: live.to_owned(),
            said: None,
        });
        Ok(live.to_owned())
    }
}

/// The agent's last words in a transcript, if it ends with them.
fn last_said(transcript: &Transcript) -> Option<String> {
    let last = transcript.messages.last()?;
    (last.role == Role::Assistant).then(|| last.plain().trim().to_owned())
}

#[async_trait]
impl Agent for Hermes {
    fn name(&self) -> &'static str {
        "hermes"
    }

    fn scribe(&self, _source: &str) -> TranscriptWriter {
        TranscriptWriter::Agent
    }

    fn rests(&self) -> bool {
        true
    }

    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &dyn Sink,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let opened = async {
            let backend = self.backend.get(|| Backend::start(&self.program)).await?;
            sink.alive();
            let mut slot = backend.sessions.reserve(sink.conversation()).await;
            let live = self.open(&backend, &mut slot, &prompt).await?;
            // Until the turn has ended well, what the backend remembers may be another thing than the transcript: pictures
            // of a turn that ends before its words are said, say.
            if let Some(open) = &mut slot.open {
                open.said = None;
            }
            let sure = images::attach(&backend, &live, &images::of(prompt.attachments)).await;
            Ok((backend, slot, live, sure))
        };
        let (backend, mut slot, live, sure) = tokio::select! {
            opened = opened => opened?,
            () = cancel.cancelled() => return Err(AgentError::Cancelled),
        };
        sink.alive();
        let mut events = backend.listen(&live);
        let mut submit = json!({"session_id": live, "text": prompt.message});
        if prompt.handoff {
            // Of the kinds of a note, Hermes takes this one here. Older ones take none and pass it over.
            submit["display_kind"] = HIDDEN.into();
        }
        let submitted = backend.call("prompt.submit", submit).await?;
        // Behind a turn that has not come to rest, whose end is not ours.
        let mut ours = submitted["status"] != "queued";
        let mut left = Left {
            backend: backend.clone(),
            live: live.clone(),
            armed: true,
        };
        let mut stopping = false;
        let outcome = loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = cancel.cancelled(), if !stopping => {
                    stopping = true;
                    let interrupt = json!({"session_id": live});
                    let _ = backend.call("session.interrupt", interrupt).await;
                    continue;
                }
                () = tokio::time::sleep(REST), if stopping => break Err(AgentError::Cancelled),
            };
            let Some(event) = event else {
                break Err(backend.why());
            };
            ours |= event.kind == "message.start";
            if !ours {
                continue;
            }
            if let Some(outcome) = hear(&backend, &live, sink, cancel, &event, &mut events).await? {
                break outcome;
            }
        };
        left.armed = false;
        let outcome = match outcome {
            _ if stopping => Err(AgentError::Cancelled),
            outcome => outcome,
        };
        match &outcome {
            Ok(reply) => {
                let said = sure.then(|| reply.text.trim().to_owned());
                slot.open = Some(Open { live, said });
                self.backend.worked().await;
            }
            Err(_) => slot.open = Some(Open { live, said: None }),
        }
        slot.touch();
        drop(slot);
        backend.tend(self.idle);
        outcome
    }

    async fn close(&self) {
        self.backend.close().await;
    }
}

/// A turn that nobody waits for any more is interrupted.
struct Left {
    backend: Arc<Backend>,
    live: String,
    armed: bool,
}

impl Drop for Left {
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

/// One event of a turn; the turn's end, if it is that.
async fn hear(
    backend: &Backend,
    live: &str,
    sink: &dyn Sink,
    cancel: &CancellationToken,
    event: &Event,
    events: &mut Listening,
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
                // A person who stops it has no more to say to it.
                () = cancel.cancelled() => "deny",
                choice = approve(sink, payload) => choice,
                () = events.over() => return Ok(None),
            };
            let mut answer = json!({"session_id": live, "choice": choice});
            match payload.get("request_id") {
                Some(id) => answer["request_id"] = id.clone(),
                None if is_stale(asked.elapsed(), events.asks_again()) => {
                    tracing::warn!(
                        "an approval came too late to know what Hermes would take it for; it is denied"
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
        // Nobody is to type a password into a chat.
        kind @ ("sudo.request" | "secret.request") => {
            let (method, name) = match kind {
                "sudo.request" => ("sudo.respond", "password"),
                _ => ("secret.respond", "value"),
            };
            let answer = json!({"session_id": live, "request_id": payload["request_id"], name: ""});
            backend.call(method, answer).await?;
        }
        _ => sink.alive(),
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

/// What Hermes calls the choices, and what people read.
const APPROVALS: [(&str, &str); 4] = [
    ("once", "Yes, this once"),
    ("session", "Yes, for this session"),
    ("always", "Yes, always"),
    ("deny", "No"),
];

/// Hermes gives an answer to the oldest approval that waits, and gives up waiting by itself, after a minute at the
/// earliest. A late answer might be taken for another command that it has asked for since.
fn is_stale(waited: Duration, asks_again: bool) -> bool {
    asks_again && waited > PENDING
}

/// Asks whether a command may run. Without an answer it may not.
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
        assert!(!is_stale(late, false), "nothing else waits for it");
        assert!(!is_stale(early, true), "both wait, and the first is meant");
    }
}
