//! Answers with any program, one process per turn. The program reads one JSON object from standard input and writes the
//! reply to standard output, as plain text or as JSON lines.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::process::Program;
use super::{Agent, AgentError, Prompt, Sink};
use crate::domain::Attachment;
use crate::domain::Reply;
use crate::domain::transcript::{Content, Message};

/// The size limit of a reply.
const LONGEST_REPLY: usize = 4 << 20;

pub struct CommandAgent {
    pub program: Program,
}

/// A line of a program that streams.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    /// A piece of the reply.
    Delta {
        text: String,
    },
    /// The whole reply. Without this line, the pieces are the reply.
    Reply {
        text: String,
    },
    /// Activity that is not part of the reply.
    Status {},
    Error {
        message: String,
    },
}

#[async_trait]
impl Agent for CommandAgent {
    fn name(&self) -> &'static str {
        "command"
    }

    fn missing(&self) -> Option<String> {
        self.program.missing()
    }

    fn works_in_directory(&self) -> bool {
        true
    }

    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &dyn Sink,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let mut process = self.program.start_in(prompt.session.cwd.as_deref())?;
        let (mut stdin, mut stdout) = process.pipes()?;
        let input = input(&prompt).to_string();
        let write = async {
            // A program need not read its input.
            let _ = stdin.write_all(input.as_bytes()).await;
            let _ = stdin.write_all(b"\n").await;
            drop(stdin);
        };
        let mut reading = Reading::default();
        let read = async {
            let mut chunk = vec![0; 16 << 10];
            loop {
                match stdout.read(&mut chunk).await {
                    Ok(0) | Err(_) => return reading.end(sink),
                    Ok(n) => reading.feed(&chunk[..n], sink)?,
                }
            }
        };
        let reply = async { tokio::join!(write, read).1 };
        tokio::pin!(reply);
        let (reply, ended) = tokio::select! {
            text = &mut reply => (text?, process.ended().await),
            // Its children may hold its output open. They are killed with its group.
            ended = process.ended() => (reply.await?, ended),
            // Dropping the process kills its group.
            () = cancel.cancelled() => return Err(AgentError::Cancelled),
        };
        ended?;
        Ok(Reply::from(reply))
    }
}

fn input(prompt: &Prompt<'_>) -> Value {
    let session = prompt.session;
    json!({
        "session": {
            "id": session.id,
            "title": session.title,
            "source": session.source,
            "model": session.model,
            "cwd": session.cwd,
            "system_prompt": session.system_prompt,
        },
        "transcript": prompt.transcript.messages.iter().map(message).collect::<Vec<_>>(),
        "message": prompt.message,
        "attachments": prompt.attachments.iter().map(attachment).collect::<Vec<_>>(),
        "handoff": prompt.handoff,
    })
}

fn attachment(attachment: &Attachment) -> Value {
    json!({
        "kind": attachment.kind.as_str(),
        "path": attachment.path.to_string_lossy(),
        "name": attachment.shown_name(),
        "mime": attachment.mime,
    })
}

fn message(message: &Message) -> Value {
    let content = match &message.content {
        None => Value::Null,
        Some(Content::Text(text)) => json!(text),
        Some(Content::Parts(parts)) => json!(parts),
    };
    let mut value = json!({"role": message.role.as_str(), "content": content});
    if !message.tool_calls.is_empty() {
        value["tool_calls"] = json!(message.tool_calls);
    }
    for (name, text) in [
        ("tool_call_id", &message.tool_call_id),
        ("tool_name", &message.tool_name),
    ] {
        if let Some(text) = text {
            value[name] = json!(text);
        }
    }
    value
}

/// The number of bytes at the end that are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let torn = last.map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(torn) {
        Err(error) if error.error_len().is_none() => torn.len(),
        _ => 0,
    }
}

/// Parses the output of the program. Its first line decides whether the output is JSON lines.
#[derive(Default)]
struct Reading {
    bytes: Vec<u8>,
    reply: String,
    whole: Option<String>,
    in_json: Option<bool>,
}

impl Reading {
    fn feed(&mut self, chunk: &[u8], sink: &dyn Sink) -> Result<(), AgentError> {
        self.bytes.extend_from_slice(chunk);
        if self.bytes.len() + self.reply.len() > LONGEST_REPLY {
            let limit = LONGEST_REPLY >> 20;
            return Err(AgentError::Failed(format!(
                "the reply is longer than {limit} MiB"
            )));
        }
        let first = self.bytes.iter().find(|b| !b.is_ascii_whitespace());
        if self.in_json.is_none() && first.is_some_and(|first| *first != b'{') {
            self.in_json = Some(false);
        }
        // Text that is certainly not JSON does not wait for the end of its line.
        if self.in_json == Some(false) {
            let whole = self.bytes.len() - unfinished(&self.bytes);
            let piece: Vec<u8> = self.bytes.drain(..whole).collect();
            self.push(&String::from_utf8_lossy(&piece), sink);
            return Ok(());
        }
        if !chunk.contains(&b'\n') {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            if line.ends_with(b"\n") {
                self.line(&String::from_utf8_lossy(line), sink)?;
            } else {
                self.bytes = line.to_vec();
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &str, sink: &dyn Sink) -> Result<(), AgentError> {
        let parsed = serde_json::from_str::<Line>(line);
        if self.in_json.is_none() && !line.trim().is_empty() {
            self.in_json = Some(parsed.is_ok());
        }
        if self.in_json != Some(true) {
            self.push(line, sink);
            return Ok(());
        }
        match parsed {
            Ok(Line::Delta { text }) => self.push(&text, sink),
            Ok(Line::Reply { text }) => self.whole = Some(text),
            Ok(Line::Status {}) => sink.alive(),
            Ok(Line::Error { message }) => return Err(AgentError::Failed(message)),
            Err(_) if line.trim().is_empty() => {}
            Err(error) => {
                let shown: String = line.trim().chars().take(200).collect();
                return Err(AgentError::Failed(format!(
                    "the program writes JSON lines, but this line is not valid ({error}): {shown}"
                )));
            }
        }
        Ok(())
    }

    fn push(&mut self, piece: &str, sink: &dyn Sink) {
        if !piece.is_empty() {
            self.reply.push_str(piece);
            sink.push(piece);
        }
    }

    fn end(&mut self, sink: &dyn Sink) -> Result<String, AgentError> {
        let rest = std::mem::take(&mut self.bytes);
        if !rest.is_empty() {
            self.line(&String::from_utf8_lossy(&rest), sink)?;
        }
        let said = std::mem::take(&mut self.reply);
        Ok(self
            .whole
            .take()
            .unwrap_or_else(|| said.trim_end().to_owned()))
    }
}
