//! Invoked by `hermesctl sessions export`.
//!
//! Writes a whole session as Markdown or JSON.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde_json::{Value, json};

use super::CliError;
use super::backend::Backend;
use super::output::Output;
use super::sessions;
use crate::clock;
use crate::domain::transcript::Content;
use crate::protocol::{MessageView, TranscriptView};

#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
pub enum ExportFormat {
    Json,
    Markdown,
}

pub(super) async fn run(
    backend: &dyn Backend,
    out: &Output,
    name: &str,
    format: ExportFormat,
    output: Option<&Path>,
) -> Result<(), CliError> {
    let whole = backend.whole_transcript(name).await?;
    // With `--json`, standard output must be JSON. Markdown can still go to a file.
    let is_markdown = format == ExportFormat::Markdown && (output.is_some() || !out.is_json());
    let text = match is_markdown {
        true => markdown(&whole),
        false => {
            serde_json::to_string_pretty(&whole).map_err(|e| CliError::Other(e.to_string()))?
        }
    };
    let Some(file) = output else {
        return match is_markdown {
            true => out.text(text.trim_end()),
            false => out.json(&text),
        };
    };
    write(file, &text)?;
    let (file, count) = (file.display().to_string(), whole.messages.len());
    out.value(&json!({"session": whole.session.id, "file": file, "messages": count}))?;
    out.line(format!("{count} messages are in {file}."))
}

/// Creates a file that only its owner can read. Never overwrites one.
fn write(file: &Path, text: &str) -> Result<(), CliError> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(file);
    let written = opened.and_then(|mut opened| {
        opened.write_all(text.trim_end().as_bytes())?;
        opened.write_all(b"\n")
    });
    written.map_err(|error| CliError::Refused {
        kind: "output".into(),
        message: format!("cannot write {}: {error}", file.display()),
        hint: Some("name a new file in an existing directory".into()),
    })
}

fn markdown(whole: &TranscriptView) -> String {
    let session = &whole.session;
    let title = session.title.as_deref().unwrap_or(&session.id);
    let mut text = format!("# {title}\n\n");
    let mut fact = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            let _ = writeln!(text, "- {name}: {value}");
        }
    };
    fact("session", Some(&session.id));
    fact("source", Some(&session.source));
    fact("model", session.model.as_deref());
    fact("started", Some(&clock::readable(session.started_at)));
    fact("ended", session.ended_at.map(clock::readable).as_deref());
    for message in &whole.messages {
        text.push_str(&section(message));
    }
    text
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

fn section(message: &MessageView) -> String {
    if let Some(line) = sessions::handoff_line(message) {
        return format!("\n*{line}*\n");
    }
    let who = match (message.role.as_str(), &message.tool_name) {
        ("user", _) if message.hidden => "Note for the agent only".to_owned(),
        ("user", _) if message.display_kind.is_some() => capital(&sessions::said_by(message)),
        ("tool", Some(tool)) => format!("Tool {tool}"),
        (role, _) => sessions::author(role).to_owned(),
    };
    let mut text = format!("\n## {who}, {}\n", clock::readable(message.timestamp));
    let said = match &message.content {
        Value::String(said) => said.clone(),
        Value::Array(parts) => Content::Parts(parts.clone()).plain(),
        _ => String::new(),
    };
    if message.role == "tool" {
        text.push_str(&fenced("", &said));
    } else if !said.trim().is_empty() {
        let _ = write!(text, "\n{}\n", said.trim_end());
    }
    for call in &message.tool_calls {
        let function = &call["function"];
        let name = function["name"].as_str().unwrap_or("tool");
        let _ = write!(text, "\nCalls `{name}`:\n");
        let arguments = function["arguments"].as_str().unwrap_or_default();
        text.push_str(&fenced("json", arguments));
    }
    text
}

/// Wraps text in a fence that is longer than any fence inside.
fn fenced(language: &str, text: &str) -> String {
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::fenced;

    #[test]
    fn a_fence_holds_whatever_is_inside() {
        assert_eq!(fenced("", "plain"), "\n```\nplain\n```\n");
        assert_eq!(
            fenced("md", "```\ncode\n```"),
            "\n````md\n```\ncode\n```\n````\n"
        );
    }
}
